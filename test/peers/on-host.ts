import { syncBuiltinESMExports } from 'node:module'
import os from 'node:os'

// Loaded before a program (`--import`): it then takes itself to be on the machine that HOST_NAME names.

const { HOST_NAME } = process.env
if (HOST_NAME !== undefined) os.hostname = () => HOST_NAME
syncBuiltinESMExports()
