import { cp, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { makeTempDir } from '../support/temp-dir.ts'
import type { Machine } from './machine.ts'
import type { ModelMutant } from './mutants.ts'

const src = join(import.meta.dirname, '../../src')
const domain = join(src, 'kubernetes-service')

/** Loads a copy of the membership with the mistake. Throws if the text to replace does not occur exactly once. */
export async function mutantMachine({ text, instead }: ModelMutant): Promise<Machine> {
  const { path: copy, remove } = await makeTempDir('membership-')
  try {
    const own = join(copy, 'src/kubernetes-service')
    await mkdir(own, { recursive: true })
    await writeFile(join(copy, 'package.json'), '{"type":"module"}')
    await cp(join(domain, 'membership'), join(own, 'membership'), { recursive: true })
    for (const name of await readdir(src)) {
      if (name !== 'kubernetes-service') await symlink(join(src, name), join(copy, 'src', name))
    }
    for (const name of await readdir(domain)) {
      if (name !== 'membership') await symlink(join(domain, name), join(own, name))
    }
    const files = await readdir(join(own, 'membership'))
    const holding: string[] = []
    for (const file of files) {
      const parts = (await readFile(join(own, 'membership', file), 'utf8')).split(text)
      for (let copies = 1; copies < parts.length; copies++) holding.push(file)
      if (parts.length === 2) await writeFile(join(own, 'membership', file), parts.join(instead))
    }
    if (holding.length !== 1) throw new Error(`membership/ holds ${holding.length} times, not once:\n${text}`)
    const load = (name: string) => import(pathToFileURL(join(own, 'membership', name)).href)
    const { startMembership, step, wakeAtMs } = await load('step.ts')
    const { nextReadiness, isServing } = await load('readiness.ts')
    return { startMembership, step, wakeAtMs, nextReadiness, isServing }
  } finally {
    await remove()
  }
}
