// SPDX-License-Identifier: Apache-2.0
package pyflinklike.bench

import java.nio.file.{Files, Paths}
import java.sql.Timestamp

import scala.collection.mutable

import org.apache.spark.sql.{DataFrame, Dataset, Encoders, SparkSession}
import org.apache.spark.sql.functions.{col, count_if, lit, sum, when}
import org.apache.spark.sql.streaming._

case class Record(user: String, amount: Long)
case class ItemRecord(user: String, item: Int)
case class TimedRecord(user: String, ts: Timestamp)
case class Total(user: String, total: Long)
case class Mean(user: String, total: Double)

/** The workloads on Spark's own Scala operator; see `workloads.py`.  Spark calls per key and
  * micro-batch, so each state is read and written once per call where the workload allows it.
  */
class RunningCount(ttl: TTLConfig) extends StatefulProcessor[String, Record, Total] {
  @transient private var count: ValueState[Long] = _

  override def init(mode: OutputMode, time: TimeMode): Unit =
    count = getHandle.getValueState[Long]("count", Encoders.scalaLong, ttl)

  override def handleInputRows(
      key: String, rows: Iterator[Record], timers: TimerValues): Iterator[Total] = {
    val first = count.get() // of a primitive type, what is missing reads as 0
    val last = first + rows.size
    count.update(last)
    (first + 1 to last).iterator.map(Total(key, _))
  }
}

class CountPerItem extends StatefulProcessor[String, ItemRecord, Total] {
  @transient private var items: MapState[Int, Long] = _

  override def init(mode: OutputMode, time: TimeMode): Unit =
    items = getHandle.getMapState[Int, Long](
      "items", Encoders.scalaInt, Encoders.scalaLong, TTLConfig.NONE)

  override def handleInputRows(
      key: String, rows: Iterator[ItemRecord], timers: TimerValues): Iterator[Total] = {
    val counts = mutable.HashMap.empty[Int, Long]
    val totals = rows.map { row =>
      val stored = counts.getOrElse(row.item, items.getValue(row.item))
      counts(row.item) = stored + 1
      Total(key, stored + 1)
    }.toVector
    counts.foreach { case (item, count) => items.updateValue(item, count) }
    totals.iterator
  }
}

class ListSum extends StatefulProcessor[String, Record, Total] {
  @transient private var amounts: ListState[Long] = _

  override def init(mode: OutputMode, time: TimeMode): Unit =
    amounts = getHandle.getListState[Long]("amounts", Encoders.scalaLong, TTLConfig.NONE)

  override def handleInputRows(
      key: String, rows: Iterator[Record], timers: TimerValues): Iterator[Total] = {
    val added = mutable.ArrayBuffer.empty[Long]
    lazy val stored = amounts.get().sum
    val totals = mutable.ArrayBuffer.empty[Total]
    rows.foreach { row =>
      added += row.amount
      if (row.amount % 10 == 0) totals += Total(key, stored + added.sum)
    }
    amounts.appendList(added.toArray)
    totals.iterator
  }
}

class RunningSum extends StatefulProcessor[String, Record, Total] {
  @transient private var state: ValueState[Long] = _

  override def init(mode: OutputMode, time: TimeMode): Unit =
    state = getHandle.getValueState[Long]("sum", Encoders.scalaLong, TTLConfig.NONE)

  override def handleInputRows(
      key: String, rows: Iterator[Record], timers: TimerValues): Iterator[Total] = {
    var total = state.get()
    val totals = rows.map { row => total += row.amount; Total(key, total) }.toVector
    state.update(total)
    totals.iterator
  }
}

class AverageSoFar extends StatefulProcessor[String, Record, Mean] {
  @transient private var state: ValueState[(Long, Long)] = _

  override def init(mode: OutputMode, time: TimeMode): Unit =
    state = getHandle.getValueState[(Long, Long)](
      "average", Encoders.tuple(Encoders.scalaLong, Encoders.scalaLong), TTLConfig.NONE)

  override def handleInputRows(
      key: String, rows: Iterator[Record], timers: TimerValues): Iterator[Mean] = {
    var (total, count) = Option(state.get()).getOrElse((0L, 0L))
    val means = rows.map { row =>
      total += row.amount
      count += 1
      Mean(key, total.toDouble / count)
    }.toVector
    state.update((total, count))
    means.iterator
  }
}

class TimerPerRecord extends StatefulProcessor[String, TimedRecord, Total] {
  override def init(mode: OutputMode, time: TimeMode): Unit = ()

  override def handleInputRows(
      key: String, rows: Iterator[TimedRecord], timers: TimerValues): Iterator[Total] = {
    rows.foreach(row => getHandle.registerTimer(row.ts.getTime + 1000))
    Iterator.empty
  }

  override def handleExpiredTimer(
      key: String, timers: TimerValues, expired: ExpiredTimerInfo): Iterator[Total] =
    Iterator(Total(key, expired.getExpiryTimeInMs()))
}

/** Runs the query twice and tells of the second run: the first one warms the JVM.
  *
  * Arguments: workload, DDL of the input, input folder, folder of the checkpoints, records in
  * all, limit, file for the progress of the micro-batches, a JSON object per line.
  */
object TwsBench {
  private val hour = TTLConfig(java.time.Duration.ofHours(1))

  private def outputs(spark: SparkSession, workload: String, input: DataFrame): DataFrame = {
    import spark.implicits._
    lazy val byUser = input.as[Record].groupByKey(_.user)
    val append = OutputMode.Append()
    workload match {
      case "W1" | "W8" =>
        byUser.transformWithState(new RunningCount(TTLConfig.NONE), TimeMode.None(), append).toDF()
      case "W2" =>
        byUser.transformWithState(new RunningCount(hour), TimeMode.ProcessingTime(), append).toDF()
      case "W3" =>
        input.as[ItemRecord].groupByKey(_.user)
          .transformWithState(new CountPerItem, TimeMode.None(), append).toDF()
      case "W4" => byUser.transformWithState(new ListSum, TimeMode.None(), append).toDF()
      case "W5" => byUser.transformWithState(new RunningSum, TimeMode.None(), append).toDF()
      case "W6" => byUser.transformWithState(new AverageSoFar, TimeMode.None(), append).toDF()
      case "W7" =>
        input.withWatermark("ts", "0 seconds").as[TimedRecord].groupByKey(_.user)
          .transformWithState(new TimerPerRecord, TimeMode.EventTime(), append).toDF()
    }
  }

  private def progress(
      spark: SparkSession, workload: String, ddl: String, input: String, checkpoint: String,
      records: Long, limit: Long): Seq[String] = {
    val stream = spark.readStream.schema(ddl).option("maxFilesPerTrigger", 2).parquet(input)
    val counted = if (workload == "W6") lit(true) else col("total") <= lit(limit)
    val writer = outputs(spark, workload, stream)
      .observe("check", count_if(counted).as("rows"), sum(when(counted, col("total"))).as("total"))
      .writeStream.format("noop").option("checkpointLocation", checkpoint)
    val query =
      if (workload == "W2") writer.trigger(Trigger.ProcessingTime(0)).start()
      else writer.trigger(Trigger.AvailableNow()).start()
    if (workload == "W2") {
      while (query.isActive && query.recentProgress.map(_.numInputRows).sum < records) {
        Thread.sleep(100)
      }
      query.stop()
    } else {
      query.awaitTermination()
    }
    query.exception.foreach(throw _)
    query.recentProgress.map(_.json).toSeq
  }

  def main(arguments: Array[String]): Unit = {
    val Array(workload, ddl, input, checkpoints, records, limit, file) = arguments
    val spark = SparkSession.builder().getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    val runs = Seq("warm-up", "counted").map { run =>
      progress(spark, workload, ddl, input, s"$checkpoints/$run", records.toLong, limit.toLong)
    }
    Files.writeString(Paths.get(file), runs.last.mkString("\n"))
    // A JVM that ends in order may crash in RocksDB, which Spark closes under its own maintenance.
    Runtime.getRuntime.halt(0)
  }
}
