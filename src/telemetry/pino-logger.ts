import { fstatSync, writeFileSync } from 'node:fs'
import type { Writable } from 'node:stream'
import { inspect } from 'node:util'
import { type DestinationStream, type LoggerOptions, pino, stdTimeFunctions } from 'pino'
import { printable, printableLines } from '../runtime/errors.ts'
import type { Logger } from './logger.ts'
import { redacting, withoutSecrets } from './secrets.ts'

const levels = ['debug', 'info', 'warn', 'error'] as const

/** How much is logged; each level includes those after it. */
type LogLevel = (typeof levels)[number]

export interface PinoLoggerOptions {
  /** @default 'info' */
  readonly level?: LogLevel
  /** `json`: one object a line, for machines. `pretty`: for a person at a terminal. @default 'json' */
  readonly format?: 'json' | 'pretty'
  /** @default {@link standardError} */
  readonly destination?: DestinationStream
}

/**
 * A logger over pino. It writes at once, so that the last line before an exit is not lost, and starts no worker thread.
 *
 * Levels are words. JSON lines have times in ISO 8601. `error` becomes `{ message, code }` (with `stack` at debug). At
 * any depth `[redacted]` replaces the values of fields named authorization, token, password or the like, every loaded
 * secret, and text that resembles a secret.
 * @throws TypeError for a level that does not exist.
 */
export async function createPinoLogger(options: PinoLoggerOptions = {}): Promise<Logger> {
  const level = options.level ?? 'info'
  // Checked here, because programs in JavaScript have no compiler.
  if (!levels.includes(level)) throw new TypeError(`level must be one of ${levels.join(', ')}, not ${inspect(level)}`)
  if (options.destination === undefined) {
    const sink = standardError()
    const logger = await createPinoLogger({ ...options, destination: sink })
    sink.onLost = (lines) => logger.warn({ lines }, 'log lines were lost: standard error was not read in time')
    return logger
  }
  const target = options.destination
  const pinoOptions: LoggerOptions = {
    level,
    base: null,
    messageKey: 'message',
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    serializers: { error: (error: unknown) => describeError(error, level === 'debug') },
    // Redacts the finished line, which has all parts: fields, those of child loggers, errors and the message.
    hooks: { streamWrite: redacted },
  }
  if (options.format !== 'pretty') return pino(pinoOptions, { write: (line) => target.write(printableLines(line)) })
  const { prettyFactory } = await import('pino-pretty')
  const pretty = prettyFactory({
    messageKey: 'message',
    translateTime: 'SYS:HH:MM:ss.l',
    colorize: false,
    singleLine: true,
    // Everything is JSON except a stack, whose lines stay separate.
    messageFormat: ({ message }) => printable(String(message)),
  })
  return pino(pinoOptions, { write: (line) => target.write(printableLines(pretty(line))) })
}

/** Redacts a line. If pino has not escaped a field name, the line is not JSON, but logging must not fail. */
function redacted(line: string): string {
  try {
    return `${JSON.stringify(JSON.parse(line), redacting)}\n`
  } catch {
    return withoutSecrets(line)
  }
}

function describeError(error: unknown, withStack: boolean): unknown {
  if (!(error instanceof Error)) return error
  const code = (error as { readonly code?: unknown }).code
  return {
    message: error.message,
    ...(code === undefined ? {} : { code }),
    ...(withStack ? { stack: error.stack } : {}),
  }
}

/** The most bytes that may wait for the reader of standard error. Further lines are dropped. */
export const MAX_WAITING_BYTES = 1_048_576

/** Writes lines. Never fails, and waits for no reader except a terminal. */
interface LogSink {
  /** Writes a line, or drops it if too many bytes already wait, the disk is full, or the reader has gone. */
  write(line: string): void
  /** Called with the number of dropped lines once lines can be written again. @default none */
  onLost: (lines: number) => void
}

/**
 * Standard error. When `write` returns, the line is written. If the reader of a pipe stalls, up to
 * {@link MAX_WAITING_BYTES} wait instead. A stopped terminal blocks the whole process.
 */
function standardError(): LogSink {
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
  // The reader has gone: an error cannot be reported anywhere.
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
