import type { LogFields, Logger } from './logger.ts'

/** One line that was logged; `fields` include those of the child loggers it came through. */
export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly fields: LogFields
  readonly message: string
}

/** A logger that keeps its lines, those of all its children among them, in the order of logging. */
export function memoryLogger(): Logger & { readonly lines: LogLine[] } {
  const lines: LogLine[] = []
  return Object.assign(loggerInto(lines, {}), { lines })
}

function loggerInto(lines: LogLine[], inherited: LogFields): Logger {
  const at =
    (level: LogLine['level']) =>
    (fields: LogFields, message: string): void => {
      lines.push({ level, fields: { ...inherited, ...fields }, message })
    }
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (fields) => loggerInto(lines, { ...inherited, ...fields }),
  }
}
