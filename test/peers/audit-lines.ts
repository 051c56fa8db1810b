import { userInfo } from 'node:os'
import type { Program } from './program.ts'

/** A line of the audit trail. */
export interface AuditLine {
  readonly verb: string
  readonly objectRef: {
    readonly resource: string
    readonly name?: string
    readonly uid?: string
    readonly resourceVersion?: string
  }
  readonly where?: string
  readonly reasons: readonly string[]
  readonly before: unknown
  readonly after: unknown
  readonly outcome: string
  readonly user: Readonly<Record<string, string>>
}

/** The lines of the audit trail in a program's log. */
export function auditIn(log: string): readonly AuditLine[] {
  const lines = log.split('\n').filter((line) => line.startsWith('{'))
  return lines.map((line) => JSON.parse(line)).filter(({ audit }) => audit === true)
}

/** Everything that a running program has logged. */
export function logOf({ log }: Pick<Program, 'log'>): string {
  return log.map((line) => JSON.stringify(line)).join('\n')
}

/** The user that the audit trail reports for a program with a kubeconfig of a test. */
export function auditUser(host: string) {
  const { SUDO_USER: sudoUser } = process.env
  const local = { localUser: userInfo().username, ...(sudoUser !== undefined && { sudoUser }) }
  return { host, kubeconfigUser: 'test', ...local }
}
