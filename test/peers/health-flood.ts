import { connect } from 'node:net'

// usage: node test/peers/health-flood.ts PORT CONNECTIONS MEGABYTES
// Pipelines GET /metrics over so many connections, so many megabytes in all, reads nothing, and begins again on a connection that is closed.

const [port = 0, connections = 0, megabytes = 0] = process.argv.slice(2).map(Number)
const one = 'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n'
const requests = Buffer.from(one.repeat(Math.ceil((megabytes * 1e6) / connections / one.length)))

function flood(): void {
  const socket = connect(port, '127.0.0.1')
  socket.pause()
  socket.on('error', () => {})
  socket.once('connect', () => console.log('flooding'))
  // Who reads nothing hears that it was cut off by what it writes.
  const more = setInterval(() => socket.write(one), 100)
  socket.once('close', () => {
    clearInterval(more)
    flood()
  })
  socket.write(requests)
}

for (let count = 0; count < connections; count++) flood()
