import type { Writable } from 'node:stream'

/**
 * How many pieces are written in one turn of the event loop. Small pieces fill no buffer, so without this limit nothing
 * else would get a turn.
 */
const PIECES_IN_A_TURN = 1000

/**
 * Writes `piece` again and again, as fast as the other end takes it, until that end is gone or has received `most`
 * pieces. Errors of the connection fail no test.
 */
export function endlessly(to: Writable, piece: string | Buffer, most = Number.POSITIVE_INFINITY): void {
  let unwritten = most
  const write = (): void => {
    let left = Math.min(PIECES_IN_A_TURN, unwritten)
    unwritten -= left
    while (!to.destroyed && left > 0 && to.write(piece)) left -= 1
    unwritten += left
    if (to.destroyed || unwritten <= 0) return
    if (left === 0) setImmediate(write)
    else to.once('drain', write)
  }
  to.on('error', () => {}).on('close', () => to.off('drain', write))
  write()
}
