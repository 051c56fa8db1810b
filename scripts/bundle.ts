import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import { type RolldownOutput, rolldown } from 'rolldown'
import { root } from './command.ts'

/** Packages that the program imports but never uses; see `scripts/unused-module.mjs`. */
const unusedPackages = ['@opentelemetry/api', 'hpagent', 'js-yaml', 'socks', 'socks-proxy-agent']

/** The module that replaces an unused one in the bundle. The unused one would take time or memory in every process. */
function substituteFor(source: string, importer: string, kind: string): string | undefined {
  if (source === 'node:http' && kind === 'import-statement') return join(root, 'scripts/node-http.mjs')
  if (source === 'undici') return join(root, 'scripts/undici-parts.mjs')
  const isUnused = unusedPackages.includes(source) || (source === './client-h2.js' && /[\\/]undici[\\/]/.test(importer))
  return isUnused ? join(root, 'scripts/unused-module.mjs') : undefined
}

/**
 * Escapes what is not Latin-1: a single such character makes V8 keep the whole chunk with two bytes for each character.
 */
function escapeWide(code: string): string {
  return code.replace(/[^\0-\xff]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/**
 * Bundles the command line into `directory`. Each dynamic import becomes a chunk, which is loaded only by the commands
 * that use it. Throws at a warning of the bundler.
 */
export async function bundleCommandLine(directory: string): Promise<RolldownOutput> {
  const bundler = await rolldown({
    cwd: root,
    input: { cli: 'src/cli.ts' },
    platform: 'node',
    plugins: [
      { name: 'leave-out', resolveId: (source, importer, { kind }) => substituteFor(source, importer ?? '', kind) },
      {
        name: 'escape-wide',
        // After the minifier, which replaces escapes by their characters.
        generateBundle(_options, bundle): void {
          for (const output of Object.values(bundle)) if (output.type === 'chunk') output.code = escapeWide(output.code)
        },
      },
    ],
    // As in the undici that is part of Node: without its experimental HTTP parser.
    transform: { define: { esbuildDetection: 'true' } },
    // The import of a package has no side effects. So unused parts of the Kubernetes client are left out: its thousand
    // models, WebSocket and tar.
    treeshake: { moduleSideEffects: [{ test: /[\\/]node_modules[\\/]/, sideEffects: false }] },
    onLog: (level, log) => {
      if (level === 'warn') throw new Error(log.message)
    },
  })
  try {
    const bundle = await bundler.write({
      dir: directory,
      format: 'esm',
      entryFileNames: '[name].js',
      chunkFileNames: 'chunks/[name]-[hash].js',
      // Names and line breaks are preserved, so that stack traces are readable.
      minify: { compress: true, mangle: false, codegen: { removeWhitespace: false } },
      comments: false,
    })
    await chmod(join(directory, 'cli.js'), 0o755)
    return bundle
  } finally {
    await bundler.close()
  }
}
