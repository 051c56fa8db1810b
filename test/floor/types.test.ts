import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { installPackage, pack, run } from '../support/package.ts'
import { tempDir } from '../support/temp-dir.ts'

const root = join(import.meta.dirname, '../..')
const compilers = {
  'TypeScript 5.9': join(root, 'test/floor/node_modules/.bin/tsc'),
  'TypeScript 7': join(root, 'node_modules/.bin/tsc'),
}
/** An example of a user's own sources. */
const typed = `
import { fromKubeConfig, loadKubeConfig, type MasterPorts, type Service, services } from 'apiserver-bootstrap'
import { createApiServer, type Scenario, VirtualClock } from 'apiserver-bootstrap/testing'

export const service: Service = { metadata: { name: 'a' }, spec: { clusterIP: '10.96.0.1' } }
export const ports = ({ api }: MasterPorts): Promise<Service> => api.get(services, { namespace: 'a', name: 'a' })
export const loaded = async () => fromKubeConfig((await loadKubeConfig()).config)
export { createApiServer, type Scenario, VirtualClock }
`
const strict = '--strict --exactOptionalPropertyTypes --noEmit --skipLibCheck false --pretty false --target es2024'

test('the types compile in a strict project with skipLibCheck off', async (t) => {
  const consumer = await tempDir(t)
  await installPackage(t, await pack(t, ['--ignore-scripts', '--pack-destination', consumer], root), consumer)
  await writeFile(join(consumer, 'typed.ts'), typed)
  for (const [name, compiler] of Object.entries(compilers)) {
    for (const resolution of ['nodenext', 'bundler']) {
      await t.test(`${name}, ${resolution}`, async () => {
        const module = resolution === 'bundler' ? 'esnext' : 'nodenext'
        const kind = ['--lib', 'es2024,esnext.disposable', '--module', module, '--moduleResolution', resolution]
        await run(t, compiler, [...strict.split(' '), ...kind, '--types', 'node', 'typed.ts'], { cwd: consumer })
      })
    }
  }
})
