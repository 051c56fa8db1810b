import { lstatSync, mkdirSync, realpathSync } from 'node:fs'
import { enableCompileCache } from 'node:module'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'

/**
 * Lets Node keep what it compiles in `apiserver-bootstrap/compile-cache` below `$XDG_CACHE_HOME` or `~/.cache`, and makes that directory if
 * need be. Whoever may write there decides what this program does, since Node does not ask who has written. So nothing is kept unless the
 * directory is this user's own and closed to everybody else, and nobody but this user and root can put another in its place.
 * `NODE_COMPILE_CACHE` and `NODE_DISABLE_COMPILE_CACHE` are Node's own, and come first. Never throws.
 */
export function keepCompiledCode(): void {
  const directory = ownCacheDirectory()
  if (directory !== undefined) enableCompileCache(directory)
}

function ownCacheDirectory(): string | undefined {
  const uid = process.getuid?.()
  if (uid === undefined) return undefined
  try {
    const { XDG_CACHE_HOME: given = '' } = process.env
    const isGiven = isAbsolute(given)
    let directory = realpathSync(isGiven ? given : homedir())
    if (!isOutOfReach(directory, uid)) return undefined
    // Links on the way to the home may be the system's; from there on none is followed.
    for (const name of [...(isGiven ? [] : ['.cache']), 'apiserver-bootstrap', 'compile-cache']) {
      directory = join(directory, name)
      if (!isOwn(directory, uid, name === 'compile-cache' ? 0o077 : 0o022)) return undefined
    }
    return directory
  } catch {
    // There is no home, or nothing can be written there: the program starts a little slower.
    return undefined
  }
}

/** Makes a directory that is not there. False for a link, for somebody else's, and for one with any of these rights. */
function isOwn(directory: string, uid: number, rightsOfOthers: number): boolean {
  try {
    mkdirSync(directory, { mode: 0o700 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  const status = lstatSync(directory)
  return status.isDirectory() && status.uid === uid && (status.mode & rightsOfOthers) === 0
}

/** Whether nobody but root and this user can rename what they have in a directory, or any directory above it. */
function isOutOfReach(directory: string, uid: number): boolean {
  const { uid: owner, mode } = lstatSync(directory)
  // In one that is sticky, as /tmp is, everybody renames what is his own alone.
  const isGuarded = (owner === 0 || owner === uid) && ((mode & 0o022) === 0 || (mode & 0o1000) !== 0)
  const above = dirname(directory)
  return isGuarded && (above === directory || isOutOfReach(above, uid))
}
