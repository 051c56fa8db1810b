import { rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { StartedApiServer } from '../apiserver/http-start.ts'
import { InvalidInputError, unreadableReason } from '../documents/validation.ts'
import { makeTemporaryDirectory } from '../runtime/system-file.ts'

/**
 * Writes a kubeconfig to the file `wanted` or, if that is undefined, into a new temporary directory. `server` deletes
 * the file when it closes. The disposal of the result removes the temporary directory; so does the exit of this
 * process. Throws an InvalidInputError if the file cannot be written, or if it exists and was not written by an earlier
 * server.
 */
export async function writtenKubeconfig(
  server: StartedApiServer,
  wanted: string | undefined,
): Promise<{ readonly file: string } & Disposable> {
  const file = wanted ?? join(await makeTemporaryDirectory('apiserver-bootstrap-'), 'kubeconfig')
  const remove = (): void => {
    if (wanted === undefined) rmSync(dirname(file), { recursive: true, force: true })
  }
  try {
    await server.writeKubeconfig(file)
  } catch (cause) {
    remove()
    const { code } = cause as NodeJS.ErrnoException
    const message =
      code === 'EEXIST'
        ? `${file} exists; it is not replaced`
        : code === 'ENOENT'
          ? `${dirname(file)}: no such directory`
          : `${file}: ${unreadableReason(cause)}`
    const where = wanted === undefined ? 'temporary directory' : '--write-kubeconfig'
    throw new InvalidInputError([{ where, message }], { cause })
  }
  process.once('exit', remove)
  return {
    file,
    [Symbol.dispose]() {
      process.off('exit', remove)
      remove()
    },
  }
}
