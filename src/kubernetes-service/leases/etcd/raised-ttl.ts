import type { Logger } from '../../../telemetry/logger.ts'

/** Logs once per process that etcd gives a lease a longer TTL than requested. kine grants what is requested. */
export class RaisedTtlWarning {
  #isLogged = false

  /** Returns the granted TTL. */
  checked(logger: Logger, wantedSeconds: number, grantedSeconds: number): number {
    if (!this.#isLogged && grantedSeconds > wantedSeconds) {
      this.#isLogged = true
      logger.warn(
        { wantedSeconds, grantedSeconds },
        'etcd grants a longer TTL than --lease-ttl, because its minimum is one and a half election timeouts; after its death this master stays listed for that long',
      )
    }
    return grantedSeconds
  }
}
