import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { listenAnywhere, TcpProxy } from '../../../src/drill/live/tcp-proxy.ts'
import { type ClockView, VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { eventually } from '../../support/with-timeout.ts'

test('the proxy refuses connections before accept and after refuse, and refuse resets open connections', async (t) => {
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

test('while held the proxy accepts connections but forwards nothing; afterwards it forwards the waiting data', async (t) => {
  const { proxy, upstream } = await open(t)
  await proxy.accept()
  const old = await connected(t, proxy)
  await echo(old, 'a')
  proxy.setHold('frozen', true)
  proxy.setHold('cut', true)
  const young = await connected(t, proxy)
  let answered = 0
  const counted = (text: string) => (back: string) => {
    answered++
    assert.equal(back, text)
  }
  const answers = Promise.all([echo(old, 'old').then(counted('old')), echo(young, 'young').then(counted('young'))])
  await others(t, upstream)
  assert.equal(answered, 0)
  proxy.setHold('cut', false)
  await others(t, upstream)
  assert.equal(answered, 0, 'one hold is left')
  proxy.setHold('frozen', false)
  await answers
})

test('a reset ends open connections, and new connections are forwarded', async (t) => {
  const { proxy } = await open(t)
  await proxy.accept()
  const socket = await connected(t, proxy)
  await echo(socket, 'a')
  const ended = once(socket, 'error')
  proxy.reset()
  await ended
  assert.equal(await echo(await connected(t, proxy), 'b'), 'b')
})

test('a delay applies in both directions, and later data never overtakes earlier data', async (t) => {
  const { proxy, time, clock, upstream } = await open(t)
  await proxy.accept()
  const socket = await connected(t, proxy)
  await echo(socket, 'a')
  proxy.delay(100)
  let isBack = false
  const back = echo(socket, 'b').then((text) => {
    isBack = true
    return text
  })
  for (const direction of ['there', 'back']) {
    await eventually(`it is on its way ${direction}`, () => clock.timers === 1)
    await time.advance(99)
    await others(t, upstream)
    assert.deepEqual([clock.timers, isBack], [1, false], direction)
    await time.advance(1)
  }
  assert.equal(await back, 'b')
  socket.write('first ')
  await eventually('it is on its way', () => clock.timers === 1)
  proxy.delay(0)
  const both = echo(socket, 'second', 'first second'.length)
  await others(t, upstream)
  await time.advance(100)
  assert.equal(await both, 'first second')
})

test('the end of a connection is forwarded after all data that was sent before it', async (t) => {
  const { proxy, time, clock } = await open(t)
  await proxy.accept()
  proxy.delay(20)
  const socket = await connected(t, proxy)
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk
  })
  let isOver = false
  const over = once(socket, 'end').then(() => {
    isOver = true
  })
  socket.end('all of it')
  await eventually('the end', async () => {
    if (clock.timers > 0) await time.advance(20)
    return isOver
  })
  await over
  assert.equal(text, 'all of it')
})

interface Opened {
  readonly proxy: TcpProxy
  /** The address of the server behind the proxy. */
  readonly upstream: { readonly port: number }
  readonly time: VirtualClock
  /** The proxy's clock. */
  readonly clock: ClockView
}

async function open(t: TestContext): Promise<Opened> {
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).pipe(socket)
  })
  const port = await listenAnywhere(server)
  const time = new VirtualClock()
  const clock = time.view()
  const proxy = await TcpProxy.open({ host: '127.0.0.1', port }, clock)
  t.after(async () => {
    await proxy.close()
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { proxy, upstream: { port }, time, clock }
}

/**
 * Sends and receives ten times directly, not through the proxy. Bytes that the proxy does not hold would arrive
 * meanwhile.
 */
async function others(t: TestContext, upstream: { readonly port: number }): Promise<void> {
  const socket = await connected(t, upstream)
  for (let round = 0; round < 10; round++) await echo(socket, 'x')
  socket.destroy()
}

async function connected(t: TestContext, { port }: { readonly port: number }): Promise<Socket> {
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

/** Sends a text; resolves with the first `length` bytes that come back. */
async function echo(socket: Socket, text: string, length = text.length): Promise<string> {
  let back = ''
  socket.write(text)
  while (back.length < length) back += String((await once(socket, 'data'))[0])
  return back
}
