import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Cleanup } from '../support/cleanup.ts'
import { type Child, spawnChild } from '../support/spawn-child.ts'
import { makeTempDir } from '../support/temp-dir.ts'

/** The bundle of scripts/test.ts, or else the sources. */
export const program = process.env.TEST_PROGRAM ?? fileURLToPath(new URL('../../src/cli.ts', import.meta.url))

/**
 * Starts the program, with `node` arguments before it if a test needs some. It has its own temporary directory, because
 * a program that is killed leaves files there.
 */
export async function startProgram(
  t: Cleanup,
  args: readonly string[],
  nodeArgs: readonly string[] = [],
): Promise<Child> {
  const { path: TMPDIR, remove } = await makeTempDir()
  const env = { TMPDIR, KUBECONFIG: undefined, KUBERNETES_SERVICE_HOST: undefined, NODE_OPTIONS: undefined }
  const child = await spawnChild(t, process.execPath, [...nodeArgs, program, ...args], { env })
  // Runs after the end of the program.
  t.after(remove)
  return child
}

/** Resolves with the health address of a started program once its /readyz answers 200. */
export async function whenReady(child: Child): Promise<{ readonly address: string; readonly port: string }> {
  const [, address = '', port = ''] = await child.output(/"health":"([^"]+:(\d+))"/)
  while ((await fetch(`http://${address}/readyz`)).status !== 200) await sleep(50)
  return { address, port }
}

/** Runs the program to its end. */
export async function runProgram(
  t: Cleanup,
  args: readonly string[],
  nodeArgs: readonly string[] = [],
): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: readonly string[] }> {
  const child = await startProgram(t, args, nodeArgs)
  const { code } = await child.exited
  const stderr = child.stderr().split('\n').slice(0, -1)
  return { code, stdout: child.stdout(), stderr }
}
