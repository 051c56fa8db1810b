import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdir, realpath, stat } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { EtcdProxies, socketFault } from '../../../src/drill/live/etcd-proxies.ts'
import { parseEndpoint } from '../../../src/etcd/options.ts'
import { spawnChild } from '../../support/spawn-child.ts'
import { makeTempDir } from '../../support/temp-dir.ts'

const isRoot = process.getuid?.() === 0

test('a store at a private socket is proxied at a private socket, and at no port', async (t) => {
  const { proxies, directory } = await open(t)
  const [path = ''] = pathsOf(proxies)
  assert.equal(proxies.urls.length, 1)
  assert.equal((await stat(directory)).mode & 0o777, 0o700)
  assert.equal((await stat(dirname(path))).mode & 0o777, 0o700)
  assert.equal(await echo(path), 'hello')
})

test('another user cannot reach a store through the sockets of a drill', {
  skip: !isRoot && 'needs root to be somebody else',
}, async (t) => {
  const { proxies } = await open(t)
  const [path = ''] = pathsOf(proxies)
  const script = `require('node:net').connect(process.argv[1]).on('connect', () => console.log('in')).on('error', (error) => console.log(error.code))`
  const become = `process.setgroups([]); process.setgid(65534); process.setuid(65534); ${script}`
  const child = await spawnChild(t, process.execPath, ['-e', become, path], { cwd: '/' })
  await child.exited
  assert.equal(child.stdout(), 'EACCES\n', child.stderr())
})

test('a cut path closes waiting connections when healed, a path that is away refuses them, and both recover', async (t) => {
  const { proxies } = await open(t)
  const [path = ''] = pathsOf(proxies)
  assert.deepEqual([proxies.cut, proxies.away], [false, false])
  proxies.setCut(true)
  const silent = connect(path)
  t.after(() => void silent.destroy())
  await once(silent, 'connect')
  const closed = once(silent, 'close')
  proxies.setCut(false)
  await closed
  assert.equal(await echo(path), 'hello')
  await proxies.setAway(true)
  await assert.rejects(echo(path), { code: 'ENOENT' })
  await proxies.setAway(false)
  assert.equal(await echo(path), 'hello')
})

test('socketFault reports directories whose sockets cannot be written in a list of URLs', () => {
  for (const fits of ['/tmp/apiserver-bootstrap-drill-abc', "/tmp/a b/it's $(x)"])
    assert.equal(socketFault(fits), undefined)
  for (const not of ['/tmp/a,b', '/tmp/a"b', '/tmp/50%', '/tmp/a\nb'])
    assert.match(socketFault(not) ?? '', /not allowed in a list of URLs/)
  assert.match(socketFault(`/tmp/${'x'.repeat(100)}`) ?? '', /longer than \d+ bytes/)
})

/** Proxies to an echo server at a socket. */
async function open(t: TestContext): Promise<{ readonly proxies: EtcdProxies; readonly directory: string }> {
  // The system limits a socket's path to about 100 bytes, so the directory's name is short.
  const { path, remove } = await makeTempDir('proxies-')
  const root = await realpath(path)
  const directory = join(root, "a b's $(x)")
  await mkdir(directory, { mode: 0o700 })
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).pipe(socket)
  })
  const store = join(root, 'store.sock')
  server.listen(store)
  await once(server, 'listening')
  const { socketPath = '' } = parseEndpoint(`unix://${store}`)
  const proxies = await EtcdProxies.open([{ target: { path: socketPath }, tlsHost: undefined }], directory)
  t.after(async () => {
    await proxies.close()
    for (const socket of sockets) socket.destroy()
    server.close()
    await remove()
  })
  return { proxies, directory }
}

function pathsOf({ urls }: EtcdProxies): readonly string[] {
  return urls.map((url) => {
    const { socketPath } = parseEndpoint(url)
    assert.ok(socketPath, `${url} is no socket`)
    return socketPath
  })
}

async function echo(path: string): Promise<string> {
  const socket = connect(path)
  try {
    await once(socket, 'connect')
    socket.write('hello')
    return String((await once(socket, 'data'))[0])
  } finally {
    socket.destroy()
  }
}
