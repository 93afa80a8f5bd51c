/** Passwords that a function is asked for, whenever a client opens a connection. */

const { kindOf } = require('./arguments');
const { idleCall } = require('./calls');

/** @typedef {() => string | PromiseLike<string>} AskPassword */

/**
 * Answers a client's questions by what a function answers, until the client has ended.
 *
 * It keeps neither the process alive nor the client from being forgotten.
 *
 * @param {import('./native').NativeQuestions} questions
 * @param {AskPassword} ask
 * @returns {Promise<void>}
 */
async function answerQuestions(questions, ask) {
  for (;;) {
    const question = await idleCall((slot) => questions.next(slot));
    if (question === undefined) return;
    // Several connections may ask at once.
    answer(question, ask);
  }
}

/**
 * What the function throws, or answers wrongly, may hold a secret, so that only its kind is told.
 *
 * @param {import('./native').NativeQuestion} question
 * @param {AskPassword} ask
 * @returns {Promise<void>}
 */
async function answer(question, ask) {
  let password;
  try {
    password = await ask();
  } catch (error) {
    question.fail(`it threw ${described(error)}`);
    return;
  }
  if (typeof password === 'string') question.answer(password);
  else question.fail(`it answered ${described(password)}, not a string`);
}

/**
 * @param {unknown} value
 * @returns {string} Its kind; what a value does when it is looked at is not trusted.
 */
function described(value) {
  try {
    return kindOf(value);
  } catch {
    return 'an object';
  }
}

module.exports = { answerQuestions };
