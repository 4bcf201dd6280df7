// SPDX-License-Identifier: Apache-2.0
package pyflinklike.bench;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.types.Row;

/** A source of records as rows (user, amount, item), made on the JVM, in order. */
public final class Generator {
    private Generator() {}

    public static final TypeInformation<Row> TYPE =
            Types.ROW(Types.STRING, Types.LONG, Types.INT);

    static final class ToRow implements MapFunction<Long, Row> {
        private static final long serialVersionUID = 1L;
        private final Records records;

        ToRow(Records records) {
            this.records = records;
        }

        @Override
        public Row map(Long number) {
            return Row.of(records.user(number), records.amount(number), records.item(number));
        }
    }

    /** The numbers of the records, with their event times where a watermark is wanted. */
    static DataStream<Long> numbers(
            StreamExecutionEnvironment env, long total, boolean eventTime) {
        WatermarkStrategy<Long> watermarks =
                eventTime
                        ? WatermarkStrategy.<Long>forMonotonousTimestamps()
                                .withTimestampAssigner(
                                        (number, before) -> Records.timestamp(number))
                        : WatermarkStrategy.noWatermarks();
        // One subtask: the amounts of a key change from batch to batch, in order.
        return env.fromSource(new NumberSequenceSource(0, total - 1), watermarks, "numbers")
                .setParallelism(1);
    }

    /** For PyFlink, which calls it through its gateway. */
    public static DataStream<Row> rows(
            StreamExecutionEnvironment env,
            long total,
            long perBatch,
            long keys,
            boolean eventTime) {
        return numbers(env, total, eventTime)
                .map(new ToRow(new Records(perBatch, keys)))
                .returns(TYPE)
                .setParallelism(1);
    }
}
