// SPDX-License-Identifier: Apache-2.0
package pyflinklike.bench;

import java.time.Duration;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.AggregatingState;
import org.apache.flink.api.common.state.AggregatingStateDescriptor;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ReducingState;
import org.apache.flink.api.common.state.ReducingStateDescriptor;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** The workloads in Java; see {@code workloads.py}, line by line the same. */
final class Functions {
    private Functions() {}

    static final int READ_EVERY = 10;
    static final long TIMER_DELAY_MS = 1000;

    /** Of (user, amount, item); the output is (user, total). */
    abstract static class Function
            extends KeyedProcessFunction<
                    String, Tuple3<String, Long, Integer>, Tuple2<String, Number>> {
        private static final long serialVersionUID = 1L;
    }

    static Function of(String workload) {
        switch (workload) {
            case "W1":
                return new RunningCount(false);
            case "W2":
                return new RunningCount(true);
            case "W3":
                return new CountPerItem();
            case "W4":
                return new ListSum();
            case "W5":
                return new ReducedSum();
            case "W6":
                return new AverageSoFar();
            case "W7":
                return new TimerPerRecord();
            default:
                throw new IllegalArgumentException(workload);
        }
    }

    static final class RunningCount extends Function {
        private static final long serialVersionUID = 1L;
        private final boolean expiring;
        private transient ValueState<Long> count;

        RunningCount(boolean expiring) {
            this.expiring = expiring;
        }

        @Override
        public void open(OpenContext context) {
            ValueStateDescriptor<Long> descriptor =
                    new ValueStateDescriptor<>("count", Types.LONG);
            if (expiring) {
                descriptor.enableTimeToLive(
                        StateTtlConfig.newBuilder(Duration.ofHours(1))
                                .setUpdateType(StateTtlConfig.UpdateType.OnReadAndWrite)
                                .setStateVisibility(
                                        StateTtlConfig.StateVisibility.NeverReturnExpired)
                                .build());
            }
            count = getRuntimeContext().getState(descriptor);
        }

        @Override
        public void processElement(
                Tuple3<String, Long, Integer> value,
                Context context,
                Collector<Tuple2<String, Number>> out)
                throws Exception {
            Long former = count.value();
            Long now = (former == null ? 0L : former) + 1;
            count.update(now);
            out.collect(Tuple2.of(value.f0, now));
        }
    }

    static final class CountPerItem extends Function {
        private static final long serialVersionUID = 1L;
        private transient MapState<Integer, Long> items;

        @Override
        public void open(OpenContext context) {
            items =
                    getRuntimeContext()
                            .getMapState(
                                    new MapStateDescriptor<>("items", Types.INT, Types.LONG));
        }

        @Override
        public void processElement(
                Tuple3<String, Long, Integer> value,
                Context context,
                Collector<Tuple2<String, Number>> out)
                throws Exception {
            Long former = items.get(value.f2);
            Long now = (former == null ? 0L : former) + 1;
            items.put(value.f2, now);
            out.collect(Tuple2.of(value.f0, now));
        }
    }

    static final class ListSum extends Function {
        private static final long serialVersionUID = 1L;
        private transient ListState<Long> amounts;

        @Override
        public void open(OpenContext context) {
            amounts =
                    getRuntimeContext()
                            .getListState(new ListStateDescriptor<>("amounts", Types.LONG));
        }

        @Override
        public void processElement(
                Tuple3<String, Long, Integer> value,
                Context context,
                Collector<Tuple2<String, Number>> out)
                throws Exception {
            amounts.add(value.f1);
            if (value.f1 % READ_EVERY == 0) {
                long sum = 0;
                for (long amount : amounts.get()) {
                    sum += amount;
                }
                out.collect(Tuple2.of(value.f0, sum));
            }
        }
    }

    static final class ReducedSum extends Function {
        private static final long serialVersionUID = 1L;
        private transient ReducingState<Long> sum;

        @Override
        public void open(OpenContext context) {
            sum =
                    getRuntimeContext()
                            .getReducingState(
                                    new ReducingStateDescriptor<>("sum", Long::sum, Types.LONG));
        }

        @Override
        public void processElement(
                Tuple3<String, Long, Integer> value,
                Context context,
                Collector<Tuple2<String, Number>> out)
                throws Exception {
            sum.add(value.f1);
            out.collect(Tuple2.of(value.f0, sum.get()));
        }
    }

    static final class Average
            implements AggregateFunction<Long, Tuple2<Long, Long>, Double> {
        private static final long serialVersionUID = 1L;

        @Override
        public Tuple2<Long, Long> createAccumulator() {
            return Tuple2.of(0L, 0L);
        }

        @Override
        public Tuple2<Long, Long> add(Long value, Tuple2<Long, Long> accumulator) {
            return Tuple2.of(accumulator.f0 + value, accumulator.f1 + 1);
        }

        @Override
        public Double getResult(Tuple2<Long, Long> accumulator) {
            return accumulator.f0 / (double) accumulator.f1;
        }

        @Override
        public Tuple2<Long, Long> merge(Tuple2<Long, Long> a, Tuple2<Long, Long> b) {
            return Tuple2.of(a.f0 + b.f0, a.f1 + b.f1);
        }
    }

    static final class AverageSoFar extends Function {
        private static final long serialVersionUID = 1L;
        private transient AggregatingState<Long, Double> average;

        @Override
        public void open(OpenContext context) {
            average =
                    getRuntimeContext()
                            .getAggregatingState(
                                    new AggregatingStateDescriptor<>(
                                            "average",
                                            new Average(),
                                            Types.TUPLE(Types.LONG, Types.LONG)));
        }

        @Override
        public void processElement(
                Tuple3<String, Long, Integer> value,
                Context context,
                Collector<Tuple2<String, Number>> out)
                throws Exception {
            average.add(value.f1);
            out.collect(Tuple2.of(value.f0, average.get()));
        }
    }

    static final class TimerPerRecord extends Function {
        private static final long serialVersionUID = 1L;

        @Override
        public void processElement(
                Tuple3<String, Long, Integer> value,
                Context context,
                Collector<Tuple2<String, Number>> out) {
            context.timerService()
                    .registerEventTimeTimer(context.timestamp() + TIMER_DELAY_MS);
        }

        @Override
        public void onTimer(
                long timestamp, OnTimerContext context, Collector<Tuple2<String, Number>> out) {
            out.collect(Tuple2.of(context.getCurrentKey(), timestamp));
        }
    }
}
