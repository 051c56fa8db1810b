import type { Flags } from '../config/resolve.ts'
import type { OptionGroup } from '../documents/option.ts'

export interface CommandDeclaration {
  readonly path: readonly [command: string, subcommand?: string]
  readonly summary: string
  /** The flags that the command accepts. The file of `--config` may also contain options of other commands. */
  readonly groups: readonly OptionGroup[]
  readonly argument?: {
    readonly name: string
    readonly description: string
    /** The values that shell completion offers. */
    readonly values?: readonly string[]
    /** Whether shell completion also offers file names. @default false */
    readonly files?: boolean
  }
  /** Command lines for the help and the reference page. */
  readonly examples: readonly string[]
  /** Imports the code of the command. `execute` resolves with the exit code. */
  load(): Promise<{ execute(flags: Flags, argument: string): Promise<number> }>
}
