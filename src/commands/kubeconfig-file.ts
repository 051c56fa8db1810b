import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { StartedApiServer } from '../apiserver/http-start.ts'
import { InvalidInputError, unreadableReason } from '../documents/validation.ts'

/** Writes a kubeconfig file for `server`, and deletes it when the result is disposed of. Never replaces a file. */
export async function writtenKubeconfig(
  server: StartedApiServer,
  wanted: string | undefined,
): Promise<{ readonly file: string } & AsyncDisposable> {
  const file = wanted ?? join(await mkdtemp(join(tmpdir(), 'apiserver-bootstrap-')), 'kubeconfig')
  try {
    await server.writeKubeconfig(file)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    const message =
      code === 'EEXIST'
        ? `${file} exists; it is not replaced`
        : code === 'ENOENT'
          ? `${dirname(file)}: no such directory`
          : `${file}: ${unreadableReason(cause)}`
    throw new InvalidInputError([{ where: '--write-kubeconfig', message }], { cause })
  }
  return {
    file,
    async [Symbol.asyncDispose]() {
      // Its port and its token are useless without the server.
      await rm(wanted === undefined ? dirname(file) : file, { recursive: wanted === undefined, force: true })
    },
  }
}
