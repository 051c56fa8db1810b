import type { Writable } from 'node:stream'

/** So many pieces are written in one turn of the event loop: small ones fill no buffer, and nobody else would have a turn. */
const PIECES_IN_A_TURN = 1000

/** Writes `piece` again and again, as fast as the other end takes it, until it goes or has had `most`. What becomes of the connection fails nobody. */
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
