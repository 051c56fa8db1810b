import { syncBuiltinESMExports } from 'node:module'
import os from 'node:os'

// Loaded before a program (`--import`): the program then uses HOST_NAME as the name of its machine.

const { HOST_NAME } = process.env
if (HOST_NAME !== undefined) os.hostname = () => HOST_NAME
syncBuiltinESMExports()
