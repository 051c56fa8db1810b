import { generateKeyPairSync } from 'node:crypto'

export * from '../../src/drill/live/server-front.ts'

/** An RSA key pair such as kube-apiserver signs service account tokens with. */
export function serviceAccountKey(): { readonly publicKey: string; readonly privateKey: string } {
  const pair = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs1', format: 'pem' },
  })
  return { publicKey: pair.publicKey, privateKey: pair.privateKey }
}
