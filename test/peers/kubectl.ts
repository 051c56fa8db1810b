import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { binary } from './binaries.ts'
import { type Owner, temporaryDirectory } from './owner.ts'

export interface KubectlResult {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/**
 * kubectl for one server, with its own home and discovery cache: a server may have the port of an earlier server, and
 * must not be taken for that. Rejects if kubectl did not end by itself: otherwise two runs that did not happen would be
 * taken for equal.
 */
export function kubectlFor(owner: Owner, kubeconfig: string): (...args: string[]) => Promise<KubectlResult> {
  const home = temporaryDirectory(owner, 'kubectl')
  const shared = [`--kubeconfig=${kubeconfig}`, `--cache-dir=${join(home, 'cache')}`, '--request-timeout=20s']
  return (...args) =>
    new Promise((resolve, reject) => {
      const options = { env: { PATH: process.env.PATH, HOME: home }, timeout: 60_000 }
      execFile(binary('kubectl'), [...shared, ...args], options, (error, stdout, stderr) => {
        const code = error === null ? 0 : error.code
        if (typeof code === 'number') resolve({ code, stdout, stderr })
        else reject(new Error(`kubectl ${args.join(' ')} did not run to its end`, { cause: error }))
      })
    })
}
