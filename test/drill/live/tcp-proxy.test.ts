import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { listenAnywhere } from '../../../src/drill/live/free-port.ts'
import { TcpProxy } from '../../../src/drill/live/tcp-proxy.ts'

/** Far longer than anything takes on loopback; what is held is waited for so long. */
const awhileMs = 150

test('until it accepts, and after it refuses, nobody gets through; open connections are reset', async (t) => {
  const { proxy } = await open(t)
  assert.equal(await outcomeOf(t, proxy), 'ECONNREFUSED')
  await proxy.accept()
  const socket = await connected(t, proxy)
  assert.equal(await echo(socket, 'a'), 'a')
  const ended = once(socket, 'error')
  await proxy.refuse()
  assert.equal(((await ended)[0] as NodeJS.ErrnoException).code, 'ECONNRESET')
  assert.equal(await outcomeOf(t, proxy), 'ECONNREFUSED')
  await proxy.accept()
  assert.equal(await echo(await connected(t, proxy), 'b'), 'b')
})

test('while it is held connections are taken and nothing is answered; afterwards what waited goes on', async (t) => {
  const { proxy } = await open(t)
  await proxy.accept()
  const old = await connected(t, proxy)
  await echo(old, 'a')
  proxy.hold('frozen')
  proxy.hold('cut')
  const young = await connected(t, proxy)
  const answers = Promise.all([echo(old, 'old'), echo(young, 'young')])
  assert.equal(await Promise.race([answers, sleep(awhileMs, 'nothing')]), 'nothing')
  proxy.release('cut')
  assert.equal(await Promise.race([answers, sleep(awhileMs, 'nothing')]), 'nothing', 'one hold is left')
  proxy.release('frozen')
  assert.deepEqual(await answers, ['old', 'young'])
})

test('a reset ends what is open, and new connections get through', async (t) => {
  const { proxy } = await open(t)
  await proxy.accept()
  const socket = await connected(t, proxy)
  await echo(socket, 'a')
  const ended = once(socket, 'error')
  proxy.reset()
  await ended
  assert.equal(await echo(await connected(t, proxy), 'b'), 'b')
})

test('with a delay everything takes longer both ways, and nothing overtakes what was sent before it', async (t) => {
  const { proxy } = await open(t)
  await proxy.accept()
  const socket = await connected(t, proxy)
  await echo(socket, 'a')
  proxy.delay(100)
  const beganMs = performance.now()
  assert.equal(await echo(socket, 'b'), 'b')
  assert.ok(performance.now() - beganMs >= 199)
  socket.write('first ')
  await sleep(20)
  proxy.delay(0)
  assert.equal(await echo(socket, 'second', 'first second'.length), 'first second')
})

test('an end is passed on, after all that was sent before it', async (t) => {
  const { proxy } = await open(t)
  await proxy.accept()
  proxy.delay(20)
  const socket = await connected(t, proxy)
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk
  })
  socket.end('all of it')
  await once(socket, 'end')
  assert.equal(text, 'all of it')
})

async function open(t: TestContext): Promise<{ readonly proxy: TcpProxy }> {
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).pipe(socket)
  })
  const port = await listenAnywhere(server)
  const proxy = await TcpProxy.open({ host: '127.0.0.1', port })
  t.after(async () => {
    await proxy.close()
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { proxy }
}

async function connected(t: TestContext, { port }: TcpProxy): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port })
  t.after(() => void socket.destroy())
  await once(socket, 'connect')
  socket.on('error', () => {})
  return socket
}

async function outcomeOf(t: TestContext, proxy: TcpProxy): Promise<string> {
  return connected(t, proxy).then(
    () => 'connected',
    (error: NodeJS.ErrnoException) => error.code ?? '',
  )
}

/** Sends a text; resolves with so many bytes of what comes back. */
async function echo(socket: Socket, text: string, length = text.length): Promise<string> {
  let back = ''
  socket.write(text)
  while (back.length < length) back += String((await once(socket, 'data'))[0])
  return back
}
