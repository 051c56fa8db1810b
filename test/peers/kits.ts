import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { parse, parseAllDocuments, stringify } from 'yaml'
import { binary } from './binaries.ts'
import { type Owner, temporaryDirectory } from './owner.ts'

/** An object of a kit, as far as the tests read it. */
export interface Manifest {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly spec?: unknown
}

export interface KitContainer {
  readonly name: string
  readonly command: readonly string[]
  readonly lifecycle?: { readonly preStop: { readonly exec: { readonly command: readonly string[] } } }
}

/** A path below config/. */
export function kitPath(path: string): string {
  return fileURLToPath(new URL(`../../config/${path}`, import.meta.url))
}

export function readKit<T>(path: string): T {
  return parse(readFileSync(kitPath(path), 'utf8')) as T
}

/** Renders a folder below config/ by `kubectl kustomize`. */
export async function renderKit(path: string): Promise<readonly Manifest[]> {
  const { stdout } = await promisify(execFile)(binary('kubectl'), ['kustomize', kitPath(path)])
  return parseAllDocuments(stdout).map((document) => document.toJS() as Manifest)
}

/** The program's container in the first Pod or Pod template that has one. */
export function programOf(manifests: readonly Manifest[]): KitContainer {
  interface PodSpec {
    readonly initContainers?: readonly KitContainer[]
    readonly containers: readonly KitContainer[]
  }
  for (const { spec } of manifests) {
    const pod = ((spec as { template?: { spec: PodSpec } })?.template?.spec ?? spec) as PodSpec | undefined
    const all = [...(pod?.initContainers ?? []), ...(pod?.containers ?? [])]
    const found = all.find(({ name }) => name === 'apiserver-bootstrap')
    if (found !== undefined) return found
  }
  return assert.fail('no container of the program')
}

/**
 * The arguments of a kit's command, adapted to this machine: each key of `places` is replaced by its value everywhere.
 */
export function argumentsOf(command: readonly string[], places: Readonly<Record<string, string>>): readonly string[] {
  const [program, ...args] = command.map((word) =>
    Object.entries(places).reduce((text, [from, to]) => text.replaceAll(from, to), word),
  )
  assert.equal(program, 'apiserver-bootstrap')
  return args
}

/** A copy of a kit's configuration file with other values, for this machine. */
export function configurationOf(owner: Owner, path: string, changes: Readonly<Record<string, unknown>>): string {
  const copy = join(temporaryDirectory(owner, 'kit'), 'configuration.yaml')
  writeFileSync(copy, stringify({ ...readKit<object>(path), ...changes }))
  return copy
}
