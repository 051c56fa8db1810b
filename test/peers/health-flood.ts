import { connect } from 'node:net'

// usage: node test/peers/health-flood.ts PORT CONNECTIONS MEGABYTES
// Pipelines GET /metrics over CONNECTIONS connections, MEGABYTES in all, and reads nothing. When a connection is
// closed, opens another one and begins again.

const [port = 0, connections = 0, megabytes = 0] = process.argv.slice(2).map(Number)
const one = 'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n'
const requests = Buffer.from(one.repeat(Math.ceil((megabytes * 1e6) / connections / one.length)))

function flood(): void {
  const socket = connect(port, '127.0.0.1')
  socket.pause()
  socket.on('error', () => {})
  socket.once('connect', () => console.log('flooding'))
  // This client reads nothing, so it learns only by writing that its connection was closed.
  const more = setInterval(() => socket.write(one), 100)
  socket.once('close', () => {
    clearInterval(more)
    flood()
  })
  socket.write(requests)
}

for (let count = 0; count < connections; count++) flood()
