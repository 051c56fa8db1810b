import { fstatSync, writeFileSync } from 'node:fs'
import type { Writable } from 'node:stream'

/** What waits at most for whoever reads standard error, in bytes; what comes then is dropped. */
export const MAX_WAITING_BYTES = 1_048_576

/** Takes lines, and never makes anybody wait for who reads them, nor fails with them. */
export interface LogSink {
  /** Takes a line, or drops it: when too much waits already, when the disk is full, or when nobody reads any more. */
  write(line: string): void
  /** Is told how many lines were dropped, once lines are taken again. @default nobody */
  onLost: (lines: number) => void
}

/**
 * Standard error. A line is written by the time `write` returns, so that the last one before an exit is not lost, unless nobody reads the pipe: then up to
 * {@link MAX_WAITING_BYTES} wait. A terminal that was stopped makes everybody wait.
 */
export function standardError(): LogSink {
  const status = fstatSync(2)
  return status.isFIFO() || status.isSocket() ? pipeSink(process.stderr) : fileSink()
}

function pipeSink(stream: Writable): LogSink {
  let lost = 0
  const sink: LogSink = {
    write(line) {
      if (stream.destroyed || stream.writableLength > MAX_WAITING_BYTES) lost++
      else stream.write(line)
    },
    onLost: () => {},
  }
  // Whoever read has gone: there is nobody left to tell.
  stream.on('error', () => {})
  stream.on('drain', () => {
    const lines = lost
    lost = 0
    if (lines > 0) sink.onLost(lines)
  })
  return sink
}

function fileSink(): LogSink {
  let lost = 0
  const sink: LogSink = {
    write(line) {
      try {
        writeFileSync(2, line)
      } catch {
        lost++
        return
      }
      const lines = lost
      lost = 0
      if (lines > 0) sink.onLost(lines)
    },
    onLost: () => {},
  }
  return sink
}
