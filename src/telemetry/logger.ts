/** The fields of a line beside its message. Keys are camelCase; an error goes under `error`. */
export type LogFields = Readonly<Record<string, unknown>>

/** Structured logging: one line per change of state, never per poll. pino's logger satisfies this interface. */
export interface Logger {
  debug(fields: LogFields, message: string): void
  info(fields: LogFields, message: string): void
  warn(fields: LogFields, message: string): void
  error(fields: LogFields, message: string): void
  /** A logger whose every line also carries `fields`. */
  child(fields: LogFields): Logger
}

/** Logs nothing: the default if the library is used without a logger. */
export const silentLogger: Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLogger,
}

/** One logged line; `fields` include those given to {@link Logger.child}. */
export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly fields: LogFields
  readonly message: string
}

/** A logger that stores its lines, and those of its children, in the order of logging. */
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
