import { KubeError } from '../kube/errors.ts'
import type { LeftOutPod } from './desired-endpoints.ts'

/**
 * What went wrong in the sync of a Service, as one error: the message has each once, in upstream's form of an aggregate. The cause is a refusal of the
 * server where there is one.
 */
export class SyncFailure extends Error {
  override name = 'SyncFailure'

  constructor(errors: readonly Error[]) {
    const messages = [...new Set(errors.map(({ message }) => message))]
    const refused = errors.find(({ cause }) => cause instanceof KubeError)
    super(messages.length === 1 ? messages[0] : `[${messages.join(', ')}]`, { cause: refused?.cause })
  }
}

/** What is wrong with a Service that has left a Pod out. */
export function leftOutError(serviceKey: string, { pod, node }: LeftOutPod): Error {
  return new Error(`skipping Pod ${pod} for Service ${serviceKey}: Node ${node} Not Found`)
}
