import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import { type RolldownOutput, rolldown } from 'rolldown'
import { root } from './command.ts'

/** Dynamic imports become chunks, which are loaded by the commands that use them. */
export async function bundleCommandLine(directory: string): Promise<RolldownOutput> {
  const bundler = await rolldown({
    cwd: root,
    input: { cli: 'src/cli.ts' },
    platform: 'node',
    // Importing a package does nothing by itself: what is not used of the Kubernetes client (its thousand models, WebSocket, tar) stays out.
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
      // Names and lines stay as they are, so that a stack trace can be read.
      minify: { compress: true, mangle: false, codegen: { removeWhitespace: false } },
      comments: false,
    })
    await chmod(join(directory, 'cli.js'), 0o755)
    return bundle
  } finally {
    await bundler.close()
  }
}
