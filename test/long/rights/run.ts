import assert from 'node:assert/strict'
import { statSync } from 'node:fs'
import { messageOf } from '../../../src/runtime/errors.ts'
import type { ApiClient } from '../../peers/api-client.ts'
import { openOwner } from '../../peers/owner.ts'
import { type LogLine, startMaster } from '../../peers/program.ts'
import { untilPasses } from '../../peers/until.ts'
import { auditedRequests, describe, grant, permits, type Right } from './right.ts'
import { type Situation, situations } from './situations.ts'
import { reset, type World, type Worlds } from './world.ts'

/** The roles that are granted only with a part of config/kustomize. */
const roleOf = {
  'rbac-endpoints': 'ClusterRole apiserver-bootstrap-endpoints',
  'rbac-service-cidr': 'ClusterRole apiserver-bootstrap-service-cidr',
} as const

export interface SituationOptions {
  /** A right that is not granted. */
  readonly without?: Right
  /** Whether a line of the log, without backslashes, is the expected one. */
  readonly isSeen?: (text: string) => boolean
}

export interface Outcome {
  /** Where the requests of the program begin in the audit log. */
  readonly since: number
  /** The first expected line in the program's log. */
  readonly seen: LogLine | undefined
}

/** The rights that are granted during a situation: all rights in the manifests for it, except `without`. */
export function rightsFor({ roles }: World, { part }: Situation, without?: Right): readonly Right[] {
  const others = Object.entries(roleOf).flatMap(([name, role]) => (name === part ? [] : [role as string]))
  const all = roles.flatMap(({ rights }) => rights)
  return all.filter((right) => right !== without && !others.includes(right.role))
}

async function grantFor(world: World, situation: Situation, without?: Right): Promise<void> {
  const rights = new Set(rightsFor(world, situation, without))
  for (const { path, rights: all } of world.roles) {
    await grant(world.server.api, { path, rights: all.filter((right) => rights.has(right)) })
  }
  await untilPasses(
    without === undefined ? 'the roles to be in force' : `${describe(without)} to be granted nowhere else`,
    async () => {
      const { api } = world.server
      if (without !== undefined) assert.equal(await isAllowed(api, without), false)
      else for (const right of rights) assert.ok(await isAllowed(api, right), describe(right))
    },
    { withinMs: 5_000 },
  )
}

async function isAllowed(api: ApiClient, { namespace, verb, group, resource, name, path }: Right): Promise<boolean> {
  const [plural, subresource] = resource?.split('/') ?? []
  const attributes =
    path === undefined
      ? { resourceAttributes: { namespace, verb, group, resource: plural, subresource, name } }
      : { nonResourceAttributes: { path, verb } }
  const spec = { user: 'apiserver-bootstrap', groups: ['system:authenticated'], ...attributes }
  const reviews = '/apis/authorization.k8s.io/v1/subjectaccessreviews'
  return (await api.create<{ status: { allowed: boolean } }>(reviews, { spec })).status.allowed
}

/**
 * Runs a situation to its end, or until the program logs a line for which `isSeen` returns true. Rejects if a step does
 * not complete.
 */
export async function runSituation(
  world: World,
  situation: Situation,
  { without, isSeen = () => false }: SituationOptions = {},
): Promise<Outcome> {
  const owner = openOwner()
  let log = (): string => ''
  try {
    await reset(world)
    await grantFor(world, situation, without)
    const since = statSync(world.auditLog).size
    await situation.before?.(world)
    const { address = '192.0.2.1', serviceClusterIpRange } = situation
    const program = await startMaster(owner, world.server, {
      address,
      kubeconfig: world.kubeconfig,
      ...(serviceClusterIpRange !== undefined && { serviceClusterIpRange }),
      flags: situation.flags?.(world) ?? [],
    })
    log = () => program.process.tail()
    const run = { world, program }
    const seen = (): LogLine | undefined =>
      program.log.find((line) => isSeen(JSON.stringify(line).replaceAll('\\', '')))
    for (const step of situation.steps) {
      // The object to change may be missing, if creating it is forbidden.
      await step.act?.(run).catch((error: unknown) => {
        if (without === undefined) throw error
      })
      await untilPasses(`${situation.name}: ${step.what}`, async () => seen() ?? (await step.until(run)), {
        withinMs: 30_000,
      })
      if (seen() !== undefined) break
    }
    if (program.process.exit === undefined) await program.stop()
    return { since, seen: seen() }
  } catch (error) {
    throw new Error(`${messageOf(error)}\n${log()}`, { cause: error })
  } finally {
    await owner.close()
  }
}

/** In which situations a right is used, and which rights are granted twice. {@link describe} names the rights. */
export interface Use {
  readonly used: ReadonlyMap<string, ReadonlySet<Situation>>
  readonly twice: ReadonlySet<string>
}

/** Runs all situations and compares what the server allowed with what was granted. */
export async function useOfRights(worlds: Worlds): Promise<Use> {
  const used = new Map<string, Set<Situation>>()
  const use = (right: string, situation: Situation) =>
    void used.set(right, (used.get(right) ?? new Set()).add(situation))
  const twice = new Set<string>()
  for (const situation of situations) {
    const world = worldOf(worlds, situation)
    const rights = rightsFor(world, situation)
    const { since } = await runSituation(world, situation)
    for (const request of auditedRequests(world.auditLog, since)) {
      const permitting = rights.filter((right) => permits(right, request)).map(describe)
      for (const right of permitting) use(right, situation)
      // Rights to all objects of a kind also cover the objects that the masters manage.
      if (permitting.length > 1 && situation.part === undefined) twice.add(permitting.join(' and '))
    }
    // Admission checks these rights, but an audit log records only requests.
    if (situation.part === 'rbac-endpoints') {
      for (const right of rights) if (right.resource?.endsWith('/finalizers')) use(describe(right), situation)
    }
  }
  return { used, twice }
}

export function worldOf(worlds: Worlds, { kind = 'bare' }: Situation): World {
  return worlds[kind]
}
