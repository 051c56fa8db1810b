import type { Flags } from '../config/resolve.ts'
import type { OptionGroup } from '../documents/option.ts'

/** One command of the program. */
export interface CommandDeclaration {
  /** The words of the command on the command line. */
  readonly path: readonly [command: string, subcommand?: string]
  readonly summary: string
  /** The options that are flags of the command. A configuration file may contain all options, whatever the command. */
  readonly groups: readonly OptionGroup[]
  /** The argument after the words of the command, beside the flags. */
  readonly argument?: {
    readonly name: string
    readonly description: string
    /** The values that shell completion offers. @default file names */
    readonly values?: readonly string[]
  }
  /** Command lines for the help and the reference page. */
  readonly examples: readonly string[]
  /** Loads the command's code; `execute` resolves with the exit code, or throws. */
  load(): Promise<{ execute(flags: Flags, argument: string): Promise<number> }>
}
