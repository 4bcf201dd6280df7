// SPDX-License-Identifier: Apache-2.0
package pyflinklike.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.types.Row;

/**
 * Counts and sums the outputs, and notes when they came.
 *
 * <p>Each subtask writes, at its end, a file of lines: first "rows total" as far as they are
 * checked, then "nanoTime outputs" for every so many outputs.
 */
public final class CheckSink<T> implements Sink<T> {
    private static final long serialVersionUID = 1L;
    private final String folder;
    private final int every;
    private final long limit;

    public CheckSink(String folder, int every, long limit) {
        this.folder = folder;
        this.every = every;
        this.limit = limit;
    }

    @Override
    public SinkWriter<T> createWriter(WriterInitContext context) {
        int subtask = context.getTaskInfo().getIndexOfThisSubtask();
        return new Writer<>(Paths.get(folder, "sink-" + subtask), every, limit);
    }

    private static final class Writer<T> implements SinkWriter<T> {
        private final Path path;
        private final int every;
        private final long limit;
        private final StringBuilder times = new StringBuilder();
        private long outputs;
        private long rows;
        private long longs;
        private double doubles;

        Writer(Path path, int every, long limit) {
            this.path = path;
            this.every = every;
            this.limit = limit;
        }

        @Override
        public void write(T output, Context context) {
            Object total =
                    output instanceof Row
                            ? ((Row) output).getField(1)
                            : ((Tuple2<?, ?>) output).f1;
            outputs++;
            if (total instanceof Double) {
                rows++;
                doubles += (Double) total;
            } else if ((Long) total <= limit) {
                rows++;
                longs += (Long) total;
            }
            if (outputs % every == 0) {
                note();
            }
        }

        private void note() {
            times.append(System.nanoTime()).append(' ').append(outputs).append('\n');
        }

        @Override
        public void flush(boolean endOfInput) {}

        @Override
        public void close() throws IOException {
            note();
            String total = doubles != 0 ? Double.toString(doubles) : Long.toString(longs);
            Files.writeString(path, rows + " " + total + "\n" + times);
        }
    }
}
