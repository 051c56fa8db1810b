import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Apiserver } from './apiserver.ts'
import { CertificateAuthority } from './certificates.ts'
import type { Owner } from './owner.ts'

interface WebhookOptions {
  readonly rule: {
    readonly apiGroups: readonly string[]
    readonly apiVersions: readonly string[]
    readonly resources: readonly string[]
    readonly operations: readonly string[]
  }
  /** When it allows a request, in milliseconds; `never`: it does not answer. */
  readonly answersAfterMs: number | 'never'
  /** @default that of the server: 10 */
  readonly timeoutSeconds?: number
  /** @default Fail */
  readonly failurePolicy?: 'Fail' | 'Ignore'
}

/** Installs a validating webhook in a real API server. */
export async function installWebhook(owner: Owner, server: Apiserver, options: WebhookOptions): Promise<void> {
  const { rule, answersAfterMs, ...more } = options
  const authority = new CertificateAuthority()
  const { certificate, key } = authority.issue({ commonName: 'slow', ips: ['127.0.0.1'] })
  const webhook = createServer({ cert: certificate, key }, async (incoming, answer) => {
    const chunks = await incoming.toArray()
    if (answersAfterMs === 'never') return
    const { uid } = JSON.parse(Buffer.concat(chunks).toString()).request
    // When the test is over, nobody waits for some of them any more.
    await sleep(answersAfterMs, undefined, { ref: false })
    const review = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response: { uid, allowed: true } }
    answer.setHeader('content-type', 'application/json').end(JSON.stringify(review))
  })
  await once(webhook.listen(0, '127.0.0.1'), 'listening')
  owner.after(() => {
    webhook.closeAllConnections()
    webhook.close()
  })
  const url = `https://127.0.0.1:${(webhook.address() as AddressInfo).port}`
  const caBundle = Buffer.from(authority.certificate).toString('base64')
  await server.api.create('/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations', {
    metadata: { name: 'slow' },
    webhooks: [
      {
        name: 'slow.example.com',
        clientConfig: { url, caBundle },
        rules: [rule],
        sideEffects: 'None',
        admissionReviewVersions: ['v1'],
        ...more,
      },
    ],
  })
}
