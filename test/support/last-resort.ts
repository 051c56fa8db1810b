const undos = new Set<() => void>()
const interruptions = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * Calls `undo` when this process ends in a way that runs no test hooks: by an exit, or by an interruption from outside.
 * The latest `undo` is called first. The returned function cancels this.
 */
export function atEndOfProcess(undo: () => void): () => void {
  if (undos.size === 0) {
    process.on('exit', undoAll)
    for (const signal of interruptions) process.on(signal, interrupted)
  }
  undos.add(undo)
  return () => {
    if (!undos.delete(undo) || undos.size > 0) return
    process.off('exit', undoAll)
    for (const signal of interruptions) process.off(signal, interrupted)
  }
}

function undoAll(): void {
  for (const undo of [...undos].reverse()) undo()
}

function interrupted(signal: NodeJS.Signals): void {
  undoAll()
  for (const name of interruptions) process.off(name, interrupted)
  process.kill(process.pid, signal)
}
