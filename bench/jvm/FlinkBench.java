// SPDX-License-Identifier: Apache-2.0
package pyflinklike.bench;

import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * One workload as a Java job on a local cluster of its own.
 *
 * <p>Arguments: workload, backend (hashmap or rocksdb), records, records per batch, keys, limit,
 * scratch folder, milliseconds between checkpoints, parallelism, outputs between notes of the
 * time. The job is run twice, so that the JVM has compiled it when it is measured; the second run's
 * figures are left in the folder.
 */
public final class FlinkBench {
    private FlinkBench() {}

    static final class ToTuple implements MapFunction<Long, Tuple3<String, Long, Integer>> {
        private static final long serialVersionUID = 1L;
        private final Records records;

        ToTuple(Records records) {
            this.records = records;
        }

        @Override
        public Tuple3<String, Long, Integer> map(Long number) {
            return Tuple3.of(
                    records.user(number), records.amount(number), records.item(number));
        }
    }

    static final class User implements KeySelector<Tuple3<String, Long, Integer>, String> {
        private static final long serialVersionUID = 1L;

        @Override
        public String getKey(Tuple3<String, Long, Integer> record) {
            return record.f0;
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    public static void main(String[] arguments) throws Exception {
        String workload = arguments[0];
        String backend = arguments[1];
        long total = Long.parseLong(arguments[2]);
        Records records = new Records(Long.parseLong(arguments[3]), Long.parseLong(arguments[4]));
        long limit = Long.parseLong(arguments[5]);
        String folder = arguments[6];
        int every = Integer.parseInt(arguments[9]);
        for (int run = 0; run < 2; run++) {
            Configuration settings = new Configuration();
            settings.setString("state.backend.type", backend);
            settings.setString("restart-strategy.type", "none");
            settings.setString("execution.checkpointing.interval", arguments[7] + " ms");
            settings.setString("execution.checkpointing.dir", "file://" + folder + "/checkpoints");
            settings.setString("execution.checkpointing.incremental", "true");
            settings.setString("taskmanager.memory.managed.size", "512m");
            settings.setString("rest.bind-address", "127.0.0.1");
            settings.setString("rest.address", "127.0.0.1");
            settings.setString("rest.port", "0");
            StreamExecutionEnvironment env =
                    StreamExecutionEnvironment.createLocalEnvironment(
                            Integer.parseInt(arguments[8]), settings);
            TypeInformation<?> kind = workload.equals("W6") ? Types.DOUBLE : Types.LONG;
            Generator.numbers(env, total, workload.equals("W7"))
                    .map(new ToTuple(records))
                    .returns(Types.TUPLE(Types.STRING, Types.LONG, Types.INT))
                    .setParallelism(1)
                    .keyBy(new User())
                    .process(
                            Functions.of(workload),
                            (TypeInformation) Types.TUPLE(Types.STRING, kind))
                    .sinkTo(new CheckSink<Tuple2<String, Number>>(folder, every, limit));
            env.execute(workload);
        }
    }
}
