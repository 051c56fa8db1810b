import type { ObjectRef } from '../../kube/api.ts'
import type { KubeObject, Resource } from '../../kube/resources.ts'
import { printable } from '../../runtime/errors.ts'
import { shellWord } from '../../runtime/shell.ts'

/**
 * A command without the flags of the connection, which {@link shellLine} adds. With `by-hand` the only argument is an
 * instruction for a person.
 */
export interface Command {
  readonly tool: 'kubectl' | 'apiserver-bootstrap' | 'by-hand'
  readonly args: readonly string[]
  /** The object that the command reads from its standard input, as JSON. */
  readonly input?: unknown
}

/** One difference between the expected and the found state of an object. */
export interface Finding {
  /** For example `Service default/kubernetes`. */
  readonly object: string
  readonly expected: string
  readonly found: string
  /** The commands that remove the difference, in the order in which they must run. */
  readonly remedy: readonly Command[]
}

export type Verdict =
  /** `found` describes the found state in a few words. */
  | { readonly status: 'held'; readonly found: string }
  | { readonly status: 'failed'; readonly findings: readonly Finding[] }
  | { readonly status: 'skipped'; readonly reason: string }

/** `failed` with the findings; without findings, `held` with `found`. */
export function verdictOf(findings: readonly Finding[], found: string): Verdict {
  return findings.length === 0 ? { status: 'held', found } : { status: 'failed', findings }
}

export function skipped(reason: string): Verdict {
  return { status: 'skipped', reason }
}

export function kubectl(...args: readonly string[]): Command {
  return { tool: 'kubectl', args }
}

export function kubectlCreate(object: unknown): Command {
  return { tool: 'kubectl', args: ['create', '--filename=-'], input: object }
}

/** As {@link kubectlCreate}, for an object that may already exist. */
export function kubectlApply(object: unknown): Command {
  return { tool: 'kubectl', args: ['apply', '--server-side', '--force-conflicts', '--filename=-'], input: object }
}

type Kind = Pick<Resource<KubeObject>, 'plural'>

/** A merge patch of one object; a field that is `null` in the patch is removed. */
export function kubectlPatch(kind: Kind, ref: ObjectRef, patch: unknown, ...more: readonly string[]): Command {
  return kubectl('patch', ...wordsOf(kind, ref), ...more, '--type=merge', `--patch=${JSON.stringify(patch)}`)
}

export function kubectlDelete(kind: Kind, ref: ObjectRef, ...more: readonly string[]): Command {
  return kubectl('delete', ...wordsOf(kind, ref), ...more)
}

function wordsOf({ plural }: Kind, { namespace, name }: ObjectRef): readonly string[] {
  return [plural, name, ...(namespace === undefined ? [] : [`--namespace=${namespace}`])]
}

/** Runs these controllers, separated by commas, beside a cluster, without registering the address of a master. */
export function runControllers(controllers: string, ...flags: readonly string[]): Command {
  const fixed = ['--endpoint-reconciler-type=none', `--controllers=${controllers}`, '--health-bind-address=127.0.0.1:0']
  return { tool: 'apiserver-bootstrap', args: ['run', ...fixed, ...flags] }
}

export function byHand(instruction: string): Command {
  return { tool: 'by-hand', args: [instruction] }
}

/** The flags, by tool, with which the printed commands reach the checked cluster. */
export interface CommandFlags {
  readonly kubectl: readonly string[]
  readonly 'apiserver-bootstrap': readonly string[]
}

/** The commands as one line for a POSIX shell; the instructions for a person are a comment at the end. */
export function shellLine(commands: readonly Command[], flags: CommandFlags): string {
  const lines = commands.flatMap(({ tool, args, input }) => {
    if (tool === 'by-hand') return []
    const words = [tool, ...args, ...flags[tool]].map(shellWord).join(' ')
    return input === undefined ? words : `printf %s ${shellWord(JSON.stringify(input))} | ${words}`
  })
  const comments = commands.filter(({ tool }) => tool === 'by-hand').map(({ args }) => `# ${args.join(' ')}`)
  return printable([...(lines.length === 0 ? [] : [lines.join(' && ')]), ...comments].join(' '))
}
