import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { StartedApiServer } from '../apiserver/http-start.ts'
import { InvalidInputError, unreadableReason } from '../documents/validation.ts'

/**
 * Writes a kubeconfig file for `server`, which deletes the file when it closes. Disposal of the result removes the
 * temporary directory of the file, if it is in one.
 */
export async function writtenKubeconfig(
  server: StartedApiServer,
  wanted: string | undefined,
): Promise<{ readonly file: string } & AsyncDisposable> {
  const file = wanted ?? join(await mkdtemp(join(tmpdir(), 'apiserver-bootstrap-')), 'kubeconfig')
  const remove = async (): Promise<void> => {
    if (wanted === undefined) await rm(dirname(file), { recursive: true, force: true })
  }
  try {
    await server.writeKubeconfig(file)
  } catch (cause) {
    await remove()
    const { code } = cause as NodeJS.ErrnoException
    const message =
      code === 'EEXIST'
        ? `${file} exists; it is not replaced`
        : code === 'ENOENT'
          ? `${dirname(file)}: no such directory`
          : `${file}: ${unreadableReason(cause)}`
    throw new InvalidInputError([{ where: '--write-kubeconfig', message }], { cause })
  }
  // Disposal need not delete a `wanted` file, because the server does.
  return { file, [Symbol.asyncDispose]: remove }
}
