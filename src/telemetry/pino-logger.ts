import { type DestinationStream, type LoggerOptions, pino, stdTimeFunctions } from 'pino'
import { printable, printableLines } from '../runtime/printable.ts'
import type { Logger } from './logger.ts'
import { standardError } from './process-stderr.ts'
import { redacting, withoutSecrets } from './secrets.ts'

/** How much is logged; each level includes those after it. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

export const logLevels: readonly LogLevel[] = ['debug', 'info', 'warn', 'error']

export interface PinoLoggerOptions {
  /** @default 'info' */
  readonly level?: LogLevel
  /** `json`: one object a line, for machines. `pretty`: for a person at a terminal. @default 'json' */
  readonly format?: 'json' | 'pretty'
  /** Where the lines go. @default standard error, as {@link standardError} has it */
  readonly destination?: DestinationStream
}

/**
 * A logger over pino that writes at once, so that the last line before an exit is not lost, and starts no worker
 * thread.
 *
 * Times are ISO 8601, levels are words, `error` becomes `{ message, code }` (with `stack` at debug). `[redacted]` stands, at any depth, for
 * what is in a field named authorization, token, password or the like, for every secret that was loaded, and for what looks like one.
 */
export async function createPinoLogger(options: PinoLoggerOptions = {}): Promise<Logger> {
  const level = options.level ?? 'info'
  if (options.destination === undefined) {
    const sink = standardError()
    const logger = await createPinoLogger({ ...options, destination: sink })
    sink.onLost = (lines) => logger.warn({ lines }, 'log lines were lost: nobody took them in time')
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
    // The finished line, so that nothing gets past: fields, those of child loggers, errors and the message.
    hooks: { streamWrite: redacted },
  }
  if (options.format !== 'pretty') return pino(pinoOptions, { write: (line) => target.write(printableLines(line)) })
  const { prettyFactory } = await import('pino-pretty')
  const pretty = prettyFactory({
    messageKey: 'message',
    translateTime: 'SYS:HH:MM:ss.l',
    colorize: false,
    singleLine: true,
    // All else is JSON but a stack, whose lines stay lines.
    messageFormat: ({ message }) => printable(String(message)),
  })
  return pino(pinoOptions, { write: (line) => target.write(printableLines(pretty(line))) })
}

/** A field whose name pino has not escaped makes a line that is no JSON; whoever logs must not fail for it. */
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
