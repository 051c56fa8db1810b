import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import { type RolldownOutput, rolldown } from 'rolldown'
import { root } from './command.ts'

/**
 * The module that stands in the bundle for one that would take memory in every process although nothing uses it. The
 * program never negotiates HTTP/2 with undici, and records no exemplars for OpenTelemetry.
 */
function substituteFor(source: string, importer: string): string | undefined {
  if (source === 'undici') return join(root, 'scripts/undici-parts.mjs')
  const isUnused = source === '@opentelemetry/api' || (source === './client-h2.js' && /[\\/]undici[\\/]/.test(importer))
  return isUnused ? join(root, 'scripts/unused-module.mjs') : undefined
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
    plugins: [{ name: 'leave-out', resolveId: (source, importer) => substituteFor(source, importer ?? '') }],
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
