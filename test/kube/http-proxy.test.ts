import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { isKubeError } from '../../src/kube/errors.ts'
import { ProxyError, parseProxy, proxyFromEnvironment } from '../../src/kube/http-proxy.ts'
import { HttpTransport } from '../../src/kube/http-transport.ts'
import { failingLookup } from '../support/failing-lookup.ts'
import { eventually } from '../support/with-timeout.ts'
import { certificate, serverTls, startServer } from './loopback-server.ts'

const direct = 'direct'
const rules: [noProxy: string, server: string, route: string][] = [
  ['', 'https://example.test', 'http://s:1/'],
  ['', 'http://example.test', 'http://p:2/'],
  ['', 'https://localhost:6443', direct],
  ['', 'https://127.9.9.9', direct],
  ['', 'https://[::1]:6443', direct],
  ['*', 'https://example.test', direct],
  ['example.test', 'https://example.test', direct],
  ['example.test', 'https://a.example.test', direct],
  ['example.test', 'https://an-example.test', 'http://s:1/'],
  ['.example.test', 'https://example.test', 'http://s:1/'],
  ['.example.test', 'https://a.example.test', direct],
  ['*.example.test', 'https://a.example.test', direct],
  ['*.example.test', 'https://example.test', 'http://s:1/'],
  ['EXAMPLE.test', 'https://Example.Test', direct],
  ['example.test:6443', 'https://example.test:6443', direct],
  ['example.test:6443', 'https://example.test', 'http://s:1/'],
  ['example.test:443', 'https://example.test', direct],
  ['other.test, , 192.0.2.1', 'https://192.0.2.1:6443', direct],
  ['192.0.2.1:443', 'https://192.0.2.1:6443', 'http://s:1/'],
  ['192.0.2.0/24', 'https://192.0.2.77', direct],
  ['192.0.2.9/24', 'https://192.0.2.77', direct],
  ['192.0.2.0/24', 'https://192.0.3.1', 'http://s:1/'],
  ['192.0.2.0/24', 'https://example.test', 'http://s:1/'],
  ['2001:db8::/32', 'https://[2001:db8::1]:6443', direct],
  ['2001:db8::1', 'https://[2001:db8::1]:6443', direct],
  ['[2001:db8::1]:6443', 'https://[2001:db8::1]:6443', direct],
  ['2.1', 'https://192.0.2.1', 'http://s:1/'],
  ['/8,:80,192.0.2.0/99', 'https://example.test', 'http://s:1/'],
]

for (const [noProxy, server, route] of rules) {
  test(`with NO_PROXY=${JSON.stringify(noProxy)} the route to ${server} is ${route}`, () => {
    const environment = { HTTPS_PROXY: 's:1', HTTP_PROXY: 'http://p:2', NO_PROXY: noProxy }
    assert.equal(proxyFromEnvironment(new URL(server), environment)?.href ?? direct, route)
  })
}

test('proxy variables count in upper or lower case, the upper case first; an empty one does not count', () => {
  const server = new URL('https://example.test')
  assert.equal(proxyFromEnvironment(server, { https_proxy: 'a:1', no_proxy: 'example.test' }), undefined)
  assert.equal(proxyFromEnvironment(server, { HTTPS_PROXY: 'a:1', https_proxy: 'b:1' })?.host, 'a:1')
  assert.equal(proxyFromEnvironment(server, { HTTPS_PROXY: '', https_proxy: 'b:1' })?.host, 'b:1')
  assert.equal(proxyFromEnvironment(server, { HTTP_PROXY: 'a:1' }), undefined)
})

test('an unusable proxy URL is refused in one line without its password', () => {
  for (const url of ['socks5://u:hunter2@p:1', 'ftp://u:hunter2@p:1', 'http://u:hunter2@', 'http://u:hunter2%of@p:1']) {
    assert.throws(
      () => parseProxy('HTTPS_PROXY', url),
      (error) =>
        error instanceof ProxyError && error.message.startsWith('HTTPS_PROXY ') && !/hunter2|\n/.test(error.message),
    )
  }
})

/**
 * A proxy that tunnels CONNECT and forwards other requests. With `fault` it refuses CONNECT, does not answer it, or is
 * silent after it.
 */
async function startProxy(
  t: TestContext,
  fault?: number | 'silent' | 'silent tunnel',
): Promise<{ url: URL; asked: string[]; open: () => number; cut: () => void }> {
  const asked: string[] = []
  const sockets = new Set<Socket>()
  const keep = (socket: Socket): Socket => {
    sockets.add(socket)
    return socket.on('error', () => {})
  }
  const proxy = createServer((request, response) => {
    asked.push(`${request.method} ${request.url} ${request.headers['proxy-authorization']}`)
    response.end('forwarded')
  })
  proxy.on('connection', keep)
  proxy.on('connect', (request, socket: Socket) => {
    asked.push(`CONNECT ${request.url} ${request.headers['proxy-authorization']}`)
    if (fault !== undefined) {
      if (typeof fault === 'number') socket.end(`HTTP/1.1 ${fault} No\r\n\r\n`)
      if (fault === 'silent tunnel') socket.write('HTTP/1.1 200 OK\r\n\r\n')
      socket.on('end', () => socket.end()).resume()
      return
    }
    const { hostname, port } = new URL(`http://${request.url}`)
    const upstream = keep(connect(Number(port), hostname, () => socket.write('HTTP/1.1 200 OK\r\n\r\n')))
    upstream.pipe(socket).pipe(upstream)
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  const cut = (): void => {
    for (const socket of sockets) socket.destroy()
  }
  t.after(async () => {
    cut()
    await new Promise((resolve) => proxy.close(resolve))
  })
  const url = new URL(`http://user:pass@127.0.0.1:${(proxy.address() as AddressInfo).port}`)
  return { url, asked, open: () => [...sockets].filter(({ destroyed }) => !destroyed).length, cut }
}

const request = { method: 'GET', path: '/a', query: [], headers: {} } as const
const never = new AbortController().signal
const basic = `Basic ${Buffer.from('user:pass').toString('base64')}`

test('TLS goes through a proxy tunnel and is verified end to end; many requests need at most two tunnels', async (t) => {
  const server = await startServer(t, (_, response) => response.end('ok'), { tls: serverTls('cluster') })
  const proxy = await startProxy(t)
  const tls = { ca: certificate('ca.crt'), serverName: 'cluster.example.test' }
  const transport = new HttpTransport({ server: server.url, proxy: proxy.url, tls })
  t.after(() => transport.close())
  for (let i = 0; i < 20; i++) {
    const response = await transport.send(request, never)
    assert.equal('body' in response && response.body, 'ok')
  }
  assert.ok(proxy.asked.length <= 2)
  assert.equal(proxy.asked[0], `CONNECT ${server.url.host} ${basic}`)

  const wrong = new HttpTransport({ server: server.url, proxy: proxy.url, tls: { ca: certificate('ca.crt') } })
  t.after(() => wrong.close())
  await assert.rejects(wrong.send(request, never), (error) => isKubeError(error, 'Unreachable'))
})

test('a proxy forwards plain HTTP', async (t) => {
  const proxy = await startProxy(t)
  const transport = new HttpTransport({ server: new URL('http://example.test'), proxy: proxy.url })
  t.after(() => transport.close())
  const response = await transport.send(request, never)
  assert.equal('body' in response && response.body, 'forwarded')
  assert.deepEqual(proxy.asked, [`GET http://example.test/a ${basic}`])
})

test('a new connection goes to the last known address of the proxy while DNS fails', async (t) => {
  const system = failingLookup(t)
  const proxy = await startProxy(t)
  const named = new URL(`http://proxy.test:${proxy.url.port}`)
  const tls = { ca: certificate('ca.crt'), serverName: 'cluster.example.test' }
  const server = await startServer(t, (_, response) => response.end('ok'), { tls: serverTls('cluster') })
  const transports = [
    new HttpTransport({ server: server.url, proxy: named, tls }),
    new HttpTransport({ server: new URL('http://example.test'), proxy: named }),
  ]
  for (const transport of transports) {
    t.after(() => transport.close())
    system.fails = false
    await transport.send(request, never)
    system.fails = true
    const before = system.asked
    proxy.cut()
    // The transport may notice only at its first request that the connection is cut.
    await eventually('a request that succeeds', () =>
      transport.send(request, never).then(
        () => true,
        () => false,
      ),
    )
    assert.ok(system.asked > before)
  }
})

test('the client offers an https proxy only HTTP/1.1', async (t) => {
  const offered: string[][] = []
  const tls = {
    ...serverTls('loopback'),
    ALPNCallback: ({ protocols }: { readonly protocols: string[] }) => {
      offered.push(protocols)
      return protocols[0]
    },
  }
  const proxy = await startServer(t, () => {}, { tls })
  const transport = new HttpTransport({ server: new URL('https://example.test'), proxy: proxy.url })
  t.after(() => transport.close())
  await assert.rejects(transport.send(request, never), /via the proxy/)
  assert.deepEqual(offered, [['http/1.1']])
})

test('the error for a refused tunnel names the address of the proxy, without its password', async (t) => {
  const proxy = await startProxy(t, 403)
  const transport = new HttpTransport({ server: new URL('https://example.test'), proxy: proxy.url })
  t.after(() => transport.close())
  await assert.rejects(transport.send(request, never), (error) => {
    assert.ok(isKubeError(error, 'Unreachable'))
    assert.equal(proxy.url.password, 'pass')
    const [where, why = ''] = error.message.split(/: (.*)/s)
    assert.equal(where, `https://example.test via the proxy http://${proxy.url.host}`)
    assert.match(why, /403/)
    assert.doesNotMatch(why, /pass/)
    return true
  })
})

test('the error names the proxy that opened no tunnel, and its connections do not accumulate', {
  timeout: 30_000,
}, async (t) => {
  const { url, open } = await startProxy(t, 'silent')
  const server = new URL('https://example.test')
  const transport = new HttpTransport({ server, proxy: url, connectTimeoutMs: 200 })
  t.after(() => transport.close())
  for (let times = 0; times < 3; times++) {
    await assert.rejects(transport.send({ ...request, timeoutMs: 20 }, never), { code: 'Timeout' })
  }
  await eventually('the end of the connections', () => open() === 0)
  const message = `https://example.test via the proxy http://${url.host}: the proxy opened no tunnel in time`
  await assert.rejects(transport.send(request, never), { message })
})

test('closing ends a TLS handshake in the tunnel of a proxy', { timeout: 30_000 }, async (t) => {
  const { url, asked, open } = await startProxy(t, 'silent tunnel')
  const server = new URL('https://example.test')
  const transport = new HttpTransport({ server, proxy: url, connectTimeoutMs: 60_000 })
  const sent = assert.rejects(transport.send(request, never), /the transport is closed/)
  await eventually('the tunnel', () => asked.length === 1)
  await transport.close()
  await sent
  await eventually('the end of the connection', () => open() === 0)
})

test('closing ends a TLS handshake with a proxy that would forward plain HTTP', { timeout: 30_000 }, async (t) => {
  const sockets = new Set<Socket>()
  const silent = createTcpServer((socket) => {
    sockets.add(socket.on('error', () => {}).resume())
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    silent.close()
  })
  const proxy = new URL(`https://127.0.0.1:${(silent.address() as AddressInfo).port}`)
  const server = new URL('http://example.test')
  const transport = new HttpTransport({ server, proxy, connectTimeoutMs: 60_000 })
  const sent = assert.rejects(transport.send(request, never), /the transport is closed/)
  await eventually('the connection', () => sockets.size === 1)
  await transport.close()
  await sent
  await eventually('the end of the connection', () => sockets.size === 0)
})
