import { fstatSync, writeFileSync } from 'node:fs'
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
  /** @default standard error */
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
  const target: DestinationStream =
    options.destination ??
    standardError((lines) => logger.warn({ lines }, 'log lines were lost: standard error was not read in time'))
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
  const format = options.format === 'pretty' ? await prettyFormat() : (line: string) => line
  const logger: Logger = pino(pinoOptions, { write: (line) => target.write(printableLines(format(line))) })
  return logger
}

async function prettyFormat(): Promise<(line: string) => string> {
  const { prettyFactory } = await import('pino-pretty')
  return prettyFactory({
    messageKey: 'message',
    translateTime: 'SYS:HH:MM:ss.l',
    colorize: false,
    singleLine: true,
    // Only the message is printed raw: fields are JSON, and a stack keeps its lines.
    messageFormat: ({ message }) => printable(String(message)),
  })
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

/**
 * Standard error. When `write` returns, the line is written, or dropped if the disk is full or the reader has gone. If
 * the reader of a pipe stalls, up to {@link MAX_WAITING_BYTES} wait instead. A stopped terminal blocks the whole
 * process. Never fails. `onLost` is called with the number of dropped lines once lines can be written again.
 */
function standardError(onLost: (lines: number) => void): DestinationStream {
  let lost = 0
  const reportLost = (): void => {
    const lines = lost
    lost = 0
    if (lines > 0) onLost(lines)
  }
  const status = fstatSync(2)
  if (!status.isFIFO() && !status.isSocket()) {
    return {
      write(line) {
        try {
          writeFileSync(2, line)
        } catch {
          lost++
          return
        }
        reportLost()
      },
    }
  }
  const stream = process.stderr
  // The reader has gone: an error cannot be reported anywhere.
  stream.on('error', () => {})
  stream.on('drain', reportLost)
  return {
    write(line) {
      if (stream.destroyed || stream.writableLength > MAX_WAITING_BYTES) lost++
      else stream.write(line)
    },
  }
}
