import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { createServer } from 'node:tls'
import { etcdProxyTargets } from '../../../src/drill/live/etcd-proxies.ts'
import { listenAnywhere } from '../../../src/drill/live/tcp-proxy.ts'
import { parseEndpoint } from '../../../src/etcd/options.ts'

const data = join(import.meta.dirname, '..', '..', 'kube', 'data')
const files = { cafile: join(data, 'ca.crt') }

test('a TLS endpoint is proxied under the name of this machine that its certificate is valid for', async (t) => {
  const port = await serve(t, 'loopback')
  const paths = await etcdProxyTargets(
    [parseEndpoint(`https://127.0.0.1:${port}`), parseEndpoint('http://etcd:2379')],
    files,
  )
  assert.deepEqual(paths, [
    { target: { host: '127.0.0.1', port }, tlsHost: '127.0.0.1' },
    { target: { host: 'etcd', port: 2379 }, tlsHost: undefined },
  ])
  assert.deepEqual(await etcdProxyTargets([parseEndpoint('unix:///run/kine.sock')], {}), [
    { target: { path: '/run/kine.sock' }, tlsHost: undefined },
  ])
})

test('an endpoint whose certificate is valid for no name of this machine is refused', async (t) => {
  const endpoint = parseEndpoint(`https://127.0.0.1:${await serve(t, 'cluster')}`)
  await assert.rejects(etcdProxyTargets([endpoint], files), {
    code: 'DrillFailed',
    message: /neither 127\.0\.0\.1 nor localhost/,
  })
})

test('an endpoint with an untrusted certificate, or without a server, is refused', async (t) => {
  const endpoint = parseEndpoint(`https://127.0.0.1:${await serve(t, 'loopback')}`)
  const stranger = { cafile: join(data, 'other-ca.crt') }
  await assert.rejects(etcdProxyTargets([endpoint], stranger), {
    code: 'DrillFailed',
    message: /^cannot get a trusted certificate from /,
  })
  await assert.rejects(etcdProxyTargets([parseEndpoint('https://127.0.0.1:1')], files), { code: 'DrillFailed' })
})

async function serve(t: TestContext, name: string): Promise<number> {
  const [cert, key] = ['crt', 'key'].map((end) => readFileSync(join(data, `${name}.${end}`)))
  const server = createServer({ cert, key, ALPNProtocols: ['h2'] }, (socket) => socket.on('error', () => {}))
  server.on('tlsClientError', () => {})
  t.after(() => void server.close())
  return listenAnywhere(server)
}
