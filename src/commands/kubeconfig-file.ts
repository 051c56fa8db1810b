import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { StartedApiServer } from '../apiserver/http-start.ts'
import { InvalidInputError, unreadableReason } from '../documents/validation.ts'

/** A kubeconfig file that exists as long as the server. One that exists already is never replaced. */
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
      // Alone it would be useless, since its port and token end with the server.
      await rm(wanted === undefined ? dirname(file) : file, { recursive: wanted === undefined, force: true })
    },
  }
}
