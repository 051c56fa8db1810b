import { type DestinationStream, destination, type LoggerOptions, pino, stdTimeFunctions } from 'pino'
import type { Logger } from './logger.ts'
import { redacting } from './secrets.ts'

/** How much is logged; each level includes those after it. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

export const logLevels: readonly LogLevel[] = ['debug', 'info', 'warn', 'error']

export interface PinoLoggerOptions {
  /** @default 'info' */
  readonly level?: LogLevel
  /** `json`: one object a line, for machines. `pretty`: for a person at a terminal. @default 'json' */
  readonly format?: 'json' | 'pretty'
  /** Where the lines go. @default standard error, written synchronously */
  readonly destination?: DestinationStream
}

/**
 * A logger over pino that writes synchronously, so that the last line before an exit is not lost, and starts no worker
 * thread.
 *
 * Times are ISO 8601, levels are words, `error` becomes `{ message, code }` (with `stack` at debug). `[redacted]` stands, at any depth, for
 * what is in a field named authorization, token, password or the like, for every secret that was loaded, and for what looks like one.
 */
export async function createPinoLogger(options: PinoLoggerOptions = {}): Promise<Logger> {
  const level = options.level ?? 'info'
  const target = options.destination ?? destination({ fd: 2, sync: true })
  const pinoOptions: LoggerOptions = {
    level,
    base: null,
    messageKey: 'message',
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    serializers: { error: (error: unknown) => describeError(error, level === 'debug') },
    // The finished line, so that nothing gets past: fields, those of child loggers, errors and the message.
    hooks: { streamWrite: (line) => `${JSON.stringify(JSON.parse(line), redacting)}\n` },
  }
  if (options.format !== 'pretty') return pino(pinoOptions, target)
  const { prettyFactory } = await import('pino-pretty')
  const pretty = prettyFactory({
    messageKey: 'message',
    translateTime: 'SYS:HH:MM:ss.l',
    colorize: false,
    singleLine: true,
  })
  return pino(pinoOptions, { write: (line) => target.write(pretty(line)) })
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
