/** What a line says beside its message. Keys are camelCase; an error goes under `error`. */
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

/** Says nothing: the default of a library that was given no logger. */
export const silentLogger: Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLogger,
}
