import type { ReadinessCheck } from '../kube/readiness.ts'
import type { ApiRequest, ApiResponse } from '../kube/transport.ts'
import { parameter } from './query.ts'

/** The health of an embedded server: its checks may be turned by whoever owns it. */
export class Health {
  readonly #checks = new Map<string, boolean>()

  constructor(names: readonly string[]) {
    for (const name of names) this.#checks.set(name, true)
  }

  /** Sets a check, adding it where it is new. The server is ready while all are ok. */
  set(name: string, ok: boolean): void {
    this.#checks.set(name, ok)
  }

  get checks(): readonly ReadinessCheck[] {
    return [...this.#checks].map(([name, ok]) => ({ name, ok }))
  }

  get ready(): boolean {
    return [...this.#checks.values()].every((ok) => ok)
  }

  /** The answer to /readyz, /livez or /healthz, in the words of apiserver's healthz. Liveness looks at `ping` only. */
  answer(path: '/readyz' | '/livez' | '/healthz', query: ApiRequest['query']): ApiResponse {
    const probe = path.slice(1)
    const checks = this.checks.filter((check) => probe === 'readyz' || check.name === 'ping')
    const ok = checks.every((check) => check.ok)
    if (ok && parameter(query, 'verbose') === undefined) return text(200, 'ok')
    const lines = checks.map(({ name, ok: passes }) =>
      passes ? `[+]${name} ok` : `[-]${name} failed: reason withheld`,
    )
    return text(ok ? 200 : 500, `${lines.join('\n')}\n${probe} check ${ok ? 'passed' : 'failed'}\n`)
  }
}

function text(status: number, body: string): ApiResponse {
  return { status, headers: { 'content-type': 'text/plain; charset=utf-8' }, body }
}
