import assert from 'node:assert/strict'
import type { RequestListener } from 'node:http'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { startServer } from '../kube/loopback-server.ts'
import { CertificateAuthority } from '../peers/certificates.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import { tempDir } from '../support/temp-dir.ts'
import { startProgram } from './command-line.ts'

const token = 'tok3n-abcdefghijklmnopqrstuvwxyz'

/** Answers with the token that it got. */
const echoing: RequestListener = ({ headers }, response) => {
  const message = `you sent ${headers.authorization?.slice('Bearer '.length)}`
  const body = { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: 'Forbidden', code: 403, message }
  response.writeHead(403, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

/** Throws an error that nothing catches when it receives SIGUSR2. */
const throwing = `--import=data:text/javascript,process.on('SIGUSR2',()=>{throw new Error('you sent ${token}')})`

suite('a token echoed in an error is redacted', { concurrency: 2 }, () => {
  for (const args of ['masters', 'masters --watch']) {
    test(`by ${args}`, async (t) => {
      const child = await startProgram(t, [...args.split(' '), `--kubeconfig=${await kubeconfig(t, echoing)}`])
      await child.output(/you sent/, 30_000)
      await child.stop()
      assertHidden(child.stdout() + child.stderr())
    })
  }

  test('by a live drill that an uncaught error ends, after it restores the objects', async (t) => {
    let reached = (): void => {}
    const request = new Promise<void>((resolve) => {
      reached = resolve
    })
    const file = await kubeconfig(t, () => reached())
    const args = ['drill', 'crash', '--target=live', '--yes', '--lease-store=kubernetes', `--kubeconfig=${file}`]
    const child = await startProgram(t, args, [throwing])
    await request
    child.kill('SIGUSR2')
    assert.deepEqual(await child.exited, { code: 1, signal: null })
    assertHidden(child.stderr())
    assert.match(child.stderr(), /^apiserver-bootstrap: Error: you sent .*\n.* error, and the objects are restored\n$/)
  })
})

function assertHidden(text: string): void {
  assert.match(text, /you sent \[redacted\]/)
  assert.ok(!text.includes(token), text)
}

async function kubeconfig(t: TestContext, listener: RequestListener): Promise<string> {
  const authority = new CertificateAuthority()
  const { certificate: cert, key } = authority.issue({ commonName: 'server', ips: ['127.0.0.1'] })
  const { url } = await startServer(t, listener, { tls: { cert, key } })
  return writeKubeconfig(join(await tempDir(t), 'config'), { server: url.href, ca: authority.certificate, token })
}
