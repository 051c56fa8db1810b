import { constants, setPriority } from 'node:os'

// Loaded before a test file (`--import`) that runs beside files that judge times: what it starts has this priority too.

setPriority(constants.priority.PRIORITY_LOW)
