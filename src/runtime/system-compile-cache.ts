import { lstatSync, mkdirSync, realpathSync } from 'node:fs'
import { enableCompileCache as enableNodeCompileCache } from 'node:module'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'

/**
 * Lets Node cache compiled code in `apiserver-bootstrap/compile-cache` below `$XDG_CACHE_HOME` or `~/.cache`, and
 * creates that directory if needed. Anybody who can write there controls this program, because Node does not check who
 * wrote the code. So the cache is used only if the directory belongs to this user, is closed to everybody else, and
 * only this user and root can replace it. `NODE_COMPILE_CACHE` and `NODE_DISABLE_COMPILE_CACHE` are Node's own, and
 * take precedence. Never throws.
 */
export function enableCompileCache(): void {
  const directory = ownCacheDirectory()
  if (directory !== undefined) enableNodeCompileCache(directory)
}

function ownCacheDirectory(): string | undefined {
  const uid = process.getuid?.()
  if (uid === undefined) return undefined
  try {
    const { XDG_CACHE_HOME: given = '' } = process.env
    const isGiven = isAbsolute(given)
    let directory = realpathSync(isGiven ? given : homedir())
    if (!isOutOfReach(directory, uid)) return undefined
    // Symbolic links above the home directory may belong to the system. Below it no link is followed.
    for (const name of [...(isGiven ? [] : ['.cache']), 'apiserver-bootstrap', 'compile-cache']) {
      directory = join(directory, name)
      if (!isOwn(directory, uid, name === 'compile-cache' ? 0o077 : 0o022)) return undefined
    }
    return directory
  } catch {
    // Without a writable home directory the program starts a little slower.
    return undefined
  }
}

/** Creates a missing directory. Returns false for a link, for another user's, or if others have `rightsOfOthers`. */
function isOwn(directory: string, uid: number, rightsOfOthers: number): boolean {
  try {
    mkdirSync(directory, { mode: 0o700 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  const status = lstatSync(directory)
  return status.isDirectory() && status.uid === uid && (status.mode & rightsOfOthers) === 0
}

/** Whether only root and this user can rename entries of this directory and of all directories above it. */
function isOutOfReach(directory: string, uid: number): boolean {
  const { uid: owner, mode } = lstatSync(directory)
  // In a sticky directory such as /tmp, users can rename only their own entries.
  const isGuarded = (owner === 0 || owner === uid) && ((mode & 0o022) === 0 || (mode & 0o1000) !== 0)
  const above = dirname(directory)
  return isGuarded && (above === directory || isOutOfReach(above, uid))
}
