import { connect, createMaster, createPinoLogger, defineMaster } from '../../src/index.ts'

/** An API server's own bootstrap: call the first hook when it has started, the second before it stops serving. */
export async function bootstrapHooks(kubeconfig: string) {
  const logger = await createPinoLogger({ level: 'info', format: 'json' })
  const connection = await connect({ kubeconfig, logger })
  const options = defineMaster({ advertiseAddress: '192.0.2.1', serviceClusterIpRange: '10.96.0.0/12' }, 'host-1')
  const master = createMaster(options, connection)

  master.lifecycle.postStartHook('warm-caches', async () => logger.info({}, 'a hook of our own'))
  master.lifecycle.healthCheck('disk', () => undefined, ['readyz'])

  return {
    postStart: () => master.postStartHook(),
    async preShutdown() {
      await master.preShutdownHook()
      await connection.close()
    },
  }
}
