// SPDX-License-Identifier: Apache-2.0
package pyflinklike.bench;

import java.io.Serializable;

/** The records of {@code inputs.py}, computed from their number by the same formulas. */
public final class Records implements Serializable {
    private static final long serialVersionUID = 1L;
    public static final long START_MS = 1_700_000_000_000L;
    public static final int ITEMS = 20;

    private final long perBatch;
    private final long keys;

    public Records(long perBatch, long keys) {
        this.perBatch = perBatch;
        this.keys = keys;
    }

    static long mix(long number) {
        long z = number + 0x9E3779B97F4A7C15L;
        z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
        return z ^ (z >>> 31);
    }

    private long key(long number) {
        return Long.remainderUnsigned(mix(number), keys);
    }

    public String user(long number) {
        String digits = Long.toString(key(number));
        return "user-" + "000000".substring(Math.min(digits.length(), 6)) + digits;
    }

    public long amount(long number) {
        return Long.remainderUnsigned(mix(key(number) * 1_000_003L + number / perBatch), 1000L);
    }

    public int item(long number) {
        return (int) Long.remainderUnsigned(mix(number) >>> 40, ITEMS);
    }

    public static long timestamp(long number) {
        return START_MS + number;
    }
}
