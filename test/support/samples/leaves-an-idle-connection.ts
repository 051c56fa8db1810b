import { once } from 'node:events'
import { connect, createServer, type Server } from 'node:net'
import { after, test } from 'node:test'

// Run by leaks.test.ts: the connection is unreferenced, as idle ones in a pool are, and keeps nothing alive.

let server: Server

after(() => server.unref())

test('leaves an idle connection', async () => {
  server = createServer((socket) => void socket.unref()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const connection = connect({ port: typeof address === 'object' ? (address?.port ?? 0) : 0, host: '127.0.0.1' })
  await once(connection, 'connect')
  connection.unref()
})
